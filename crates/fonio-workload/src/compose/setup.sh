# Writes Podman's settings into $RUN, in memory: images, containers and volumes are in $DATA, on the device.
set -e
# The runtime takes either generation of control groups, but not the mixture that some machines have. No container uses them.
busybox mount -t cgroup2 cgroup2 /sys/fs/cgroup
printf '[storage]\ndriver = "overlay"\ngraphroot = "%s/containers"\nrunroot = "%s/containers"\n' "$DATA" "$RUN" \
    >"$RUN/storage.conf"
cat >"$RUN/containers.conf" <<END
[containers]
cgroups = "disabled"
netns = "host"
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
END
