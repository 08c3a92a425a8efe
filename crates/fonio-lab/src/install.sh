# Runs in a guest without a disk of its own: installs Debian's packages on the first disk. The second disk has the packages:
# `first` lists the essential ones (and where the files in them begin), `rest` lists the others. Without `first`, the first
# disk has a Debian already.
exec >/dev/console 2>&1

fail() {
    echo "fonio: $1"
    poweroff -f
    sleep 60
}

target=/target
mkdir $target /packages
mount -t ext4 /dev/vda $target || fail "the new root file system cannot be mounted"
mount -t ext4 -o ro /dev/vdb /packages || fail "the packages cannot be mounted"

if test -f /packages/first; then
    # As debootstrap does: the files of the essential packages come first, so that dpkg can run there.
    while read -r file offset; do
        tail -c "+$offset" "/packages/$file" | tar -xp -C $target || fail "$file cannot be unpacked"
    done </packages/first
    mkdir -p $target/var/lib/dpkg
    : >>$target/var/lib/dpkg/status
    ln -s mawk $target/usr/bin/awk
fi
for folder in dev mnt proc run sys; do
    mkdir -p $target/$folder
done
mount -t proc proc $target/proc
mount -t sysfs sys $target/sys
mount --bind /dev $target/dev
mount -t devpts pts $target/dev/pts || fail "/dev/pts cannot be mounted"
mount -t tmpfs run $target/run
mount --bind /packages $target/mnt || fail "the packages cannot be mounted in the new root file system"
# No service starts here.
printf '#!/bin/sh\nexit 101\n' >$target/usr/sbin/policy-rc.d
chmod 755 $target/usr/sbin/policy-rc.d

debian() {
    chroot $target /usr/bin/env -i PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true sh -c 'cd /mnt && "$@"' sh "$@"
}
try_packages() {
    debian dpkg --force-depends --force-confold --force-unsafe-io --skip-same-version "$@"
}
packages() {
    try_packages "$@" || fail "dpkg $1 failed"
}

if test -f /packages/first; then
    # The order of debootstrap: each of these packages is needed by the scripts of the next ones.
    for package in base-passwd base-files dpkg libc6 perl-base mawk debconf; do
        packages --install "$(cd /packages && ls ${package}_*.deb)"
    done
    packages --unpack $(cut -d ' ' -f 1 /packages/first)
    packages --configure -a
fi
# The script of a package can need other packages that are configured (Pre-Depends): such a package is unpacked afterwards.
try_packages --unpack $(cat /packages/rest) || {
    try_packages --configure -a
    packages --unpack $(cat /packages/rest)
}
packages --configure -a
# Without --force-depends: everything must be complete now.
debian dpkg --configure -a || fail "dpkg --configure failed"
test -z "$(debian dpkg --audit)" || fail "dpkg --audit found broken packages"

rm $target/usr/sbin/policy-rc.d
if test -f /packages/first; then
    echo lab >$target/etc/hostname
    printf '127.0.0.1 localhost\n127.0.1.1 lab\n' >$target/etc/hosts
    echo '/dev/disk/by-id/virtio-root / ext4 defaults 0 1' >$target/etc/fstab
    # There is no network: these timers could only fail.
    for unit in apt-daily.timer apt-daily-upgrade.timer; do
        ln -sf /dev/null $target/etc/systemd/system/$unit
    done
    # The console belongs to the user who started the guest.
    login=$target/etc/systemd/system/serial-getty@.service.d
    mkdir -p $login
    printf '[Service]\nExecStart=\nExecStart=-/sbin/agetty --autologin root --keep-baud 115200 - $TERM\n' >$login/fonio.conf
fi
# Each guest gets an identity of its own at its first start.
: >$target/etc/machine-id
rm -f $target/var/lib/dbus/machine-id $target/var/lib/systemd/random-seed
sync
umount $target/mnt $target/run $target/dev/pts $target/dev $target/sys $target/proc
fstrim $target
umount $target || fail "the new root file system is still in use"
