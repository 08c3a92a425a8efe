#!/usr/bin/busybox sh
# The first program of a system guest: mounts the disk with Debian, and hands over to systemd.
/usr/bin/busybox --install -s /usr/bin 2>/dev/null
export PATH=/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
for module in /modules/*.ko; do
    test ! -f "$module" || insmod "$module" || echo "the module $module is not loaded"
done

fail() {
    echo "fonio: $1"
    poweroff -f
}

# The device with this serial number.
disk() {
    for device in /sys/block/*; do
        test "$(cat "$device/serial" 2>/dev/null)" != "$1" || echo "/dev/${device##*/}"
    done
}

mount -t ext4 "$(disk root)" /mnt || fail "the root file system cannot be mounted"
mkdir -p /mnt/usr/lib/modules
mount -t ext4 "$(disk modules)" /mnt/usr/lib/modules || fail "the file system with the modules cannot be mounted"
# udev uses the modules until the end: systemd must not unmount them before it ends itself.
unit=/mnt/etc/systemd/system/usr-lib-modules.mount.d
mkdir -p $unit
printf '[Unit]\nDefaultDependencies=no\n' >$unit/fonio.conf
# Files of this start. After a reboot, they are already there.
if test -d /files; then
    cd /files
    find . -type f | while read -r file; do
        cmp -s "$file" "/mnt/$file" && continue
        mkdir -p "/mnt/${file%/*}"
        cp -p "$file" "/mnt/$file" || fail "$file cannot be copied"
    done
    cd /
fi
umount /proc /sys
mount --move /dev /mnt/dev
exec switch_root /mnt /usr/lib/systemd/systemd
