# Makes the guest stand for a phone: /data is f2fs on an encrypted disk, as on Android, two apps have users of their own, and
# the shell is Android's (mksh). adbd and perfetto are Debian's; `getprop`, `id`, `am`, `input` and `setprop` are stand-ins
# with the texts of Android.
set -eu
modprobe dm_crypt
modprobe f2fs
head -c 64 /dev/urandom >/run/key
cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 512 --key-file /run/key /dev/disk/by-id/virtio-disk1 userdata
mkfs.f2fs -q /dev/mapper/userdata
mkdir -p /data
mount -t f2fs /dev/mapper/userdata /data
mkdir -p /data/misc/perfetto-traces /data/system /data/local/tmp
number=10101
for app in com.example.notes com.example.maps; do
    mkdir -p /data/data/$app
    chown $number:$number /data/data/$app
    echo "$app $number 0 /data/user/0/$app default:targetSdkVersion=34 none 0 34 1 @null" >>/data/system/packages.list
    # The names of processes tell the apps apart.
    cp /usr/bin/fio /usr/local/bin/${app##*.}
    number=$((number + 1))
done
cd /usr/local/bin
cat >getprop <<'PROPERTIES'
#!/bin/sh
case $1 in
ro.build.version.sdk) echo 34 ;;
ro.build.version.release) echo 14 ;;
ro.product.model) echo "Stand-in" ;;
ro.build.type) echo user ;;
ro.product.cpu.abi) case $(uname -m) in aarch64) echo arm64-v8a ;; *) uname -m ;; esac ;;
perf.drop_caches) echo 0 ;;
esac
PROPERTIES
# adbd of Debian runs as root; a phone's shell is not root, unless its user wants it to be.
cat >id <<'USER'
#!/bin/sh
[ "$*" = -u ] && [ ! -e /run/rooted ] && echo 2000 || exec /usr/bin/id "$@"
USER
# The markers are those of Android's system server, the texts those of `am`. The app reads 8 MiB.
cat >am <<'ACTIVITIES'
#!/bin/sh
[ "$1" = start ] || exit 0
for word; do component=$word; done
[ "$component" = com.example.maps/.Main ] || { echo "Error type 3"; exit 0; }
marker=/sys/kernel/tracing/trace_marker
echo "S|1|launchingActivity#$$|0" >$marker
# The app's main thread marks that its process is new. mksh gives programs only files that are named with them.
setpriv --reuid 10102 --regid 10102 --clear-groups bash -c \
    'echo "B|$$|bindApplication" >&9; echo "E|$$" >&9; exec -a com.example.maps dd if=/data/data/com.example.maps/app of=/dev/null bs=256k iflag=direct status=none' 9>$marker
echo "F|1|launchingActivity#$$|0" >$marker
echo "I|1|launchingActivity#$$:completed-cold:com.example.maps" >$marker
printf 'Starting: Intent { cmp=%s }\nStatus: ok\nLaunchState: COLD\nActivity: %s\n' $component $component
printf 'TotalTime: 312\nWaitTime: 315\nComplete\n'
ACTIVITIES
head -c 8M /dev/zero >/data/data/com.example.maps/app
ln -s /bin/true input
ln -s /bin/true setprop
chmod +x getprop id am
# A phone has no su, and its shell is mksh.
rm -f /usr/bin/su
ln -sf mksh /usr/bin/sh
systemctl restart traced traced-probes 2>/dev/null || {
    traced >/run/traced.log 2>&1 &
    sleep 2
    traced_probes >/run/probes.log 2>&1 &
}
systemctl restart adbd
sync
