# Makes the guest stand for a phone: /data is f2fs on an encrypted disk, as on Android, and two apps have users of their own.
# `getprop` is a stand-in with the properties of Android; adbd and perfetto are Debian's.
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
    number=$((number + 1))
done
cat >/usr/local/bin/getprop <<'PROPERTIES'
#!/bin/sh
case $1 in
ro.build.version.sdk) echo 34 ;;
ro.build.version.release) echo 14 ;;
ro.product.model) echo "Stand-in" ;;
ro.build.type) echo user ;;
esac
PROPERTIES
# adbd of Debian runs as root; a phone's shell is not root.
printf '#!/bin/sh\n[ "$*" = -u ] && echo 2000 || exec /usr/bin/id "$@"\n' >/usr/local/bin/id
chmod +x /usr/local/bin/getprop /usr/local/bin/id
systemctl restart traced traced-probes 2>/dev/null || {
    traced >/run/traced.log 2>&1 &
    sleep 2
    traced_probes >/run/probes.log 2>&1 &
}
systemctl is-active adbd || systemctl restart adbd
