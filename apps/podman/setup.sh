# Writes Podman's settings into the folder $2, in memory: its images and containers are in $1, on the device.
set -e
# The runtime takes either generation of control groups, but not the mixture that some machines have. No container uses them.
busybox mount -t cgroup2 cgroup2 /sys/fs/cgroup
printf '[storage]\ndriver = "overlay"\ngraphroot = "%s/containers"\nrunroot = "%s/containers"\n' "$1" "$2" >"$2/storage.conf"
cat >"$2/containers.conf" <<END
[containers]
cgroups = "disabled"
netns = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
END
