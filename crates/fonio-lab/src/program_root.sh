# Installs Debian's packages into a folder of this machine. Runs in mount and process namespaces of its own, so that no mount
# and no process is left. $1 is the folder, $2 the folder with the packages: `first` lists the essential ones, `rest` the others.
# Without `first`, the folder has a Debian already.
set -e
target=$1
packages=$2

if test -f "$packages/first"; then
    # As debootstrap does: the files of the essential packages come first, so that dpkg can run there.
    while read -r file; do
        dpkg-deb --fsys-tarfile "$packages/$file" | tar -xp -C "$target"
    done <"$packages/first"
    mkdir -p "$target/var/lib/dpkg"
    : >>"$target/var/lib/dpkg/status"
    ln -s mawk "$target/usr/bin/awk"
fi
for folder in dev mnt proc run sys tmp; do
    mkdir -p "$target/$folder"
done
mount --make-rslave /
mount -t proc proc "$target/proc"
mount --rbind /sys "$target/sys"
make_devices "$target/dev"
mount -t tmpfs run "$target/run"
mount --bind "$packages" "$target/mnt"
# No service starts here.
printf '#!/bin/sh\nexit 101\n' >"$target/usr/sbin/policy-rc.d"
chmod 755 "$target/usr/sbin/policy-rc.d"
# A cluster of PostgreSQL is made by those who need one.
mkdir -p "$target/etc/postgresql-common"
test -e "$target/etc/postgresql-common/createcluster.conf" ||
    echo 'create_main_cluster = false' >"$target/etc/postgresql-common/createcluster.conf"

debian() {
    chroot "$target" /usr/bin/env -i PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true sh -c 'cd /mnt && "$@"' sh "$@"
}
packages() {
    debian dpkg --force-depends --force-confold --force-unsafe-io --skip-same-version "$@"
}

if test -f "$packages/first"; then
    # The order of debootstrap: each of these packages is needed by the scripts of the next ones.
    for package in base-passwd base-files dpkg libc6 perl-base mawk debconf; do
        packages --install "$(cd "$packages" && ls ${package}_*.deb)"
    done
    packages --unpack $(cat "$packages/first")
    packages --configure -a
fi
if test -s "$packages/rest"; then
    # The script of a package can need other packages that are configured (Pre-Depends): such a package is unpacked afterwards.
    packages --unpack $(cat "$packages/rest") || {
        packages --configure -a
        packages --unpack $(cat "$packages/rest")
    }
    packages --configure -a
fi
# Without --force-depends: everything must be complete now.
debian dpkg --configure -a
test -z "$(debian dpkg --audit)"
