#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# block-headers.sh KERNEL HEADERS TO: put the private headers of block/ of exactly this kernel into the folder TO.
#
# An I/O scheduler needs headers that the package with the kernel's headers lacks. They are in the source package. A header
# of another version may have another layout of structures, which no check of the kernel would notice when the module is
# loaded; so the versions must be equal.
set -eu
kernel=$1 headers=$2 to=$3
here=$(dirname "$0")

refuse() {
    echo "SmartIO: $1" >&2
    exit 1
}

test -e "$headers/Makefile" ||
    refuse "there are no headers of Linux $kernel in $headers. Install the package linux-headers-$kernel."
version=$(make -s -C "$headers" kernelversion)
series=$(echo "$version" | cut -d . -f 1,2)
grep -qx "$series" "$here/kernels.list" ||
    refuse "Linux $kernel is not one of the kernels for which this module was built and tested: $(grep -v '^#' "$here/kernels.list" | tr '\n' ' '). Nothing was built."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
source=/usr/src/linux-source-$series.tar.xz
if ! test -e "$source"; then
    package=linux-source-$series
    debian=$(dpkg-query -W -f '${Version}' "linux-headers-$kernel" 2>/dev/null) ||
        refuse "$source is missing. Install the package $package of the version of this kernel, $version."
    echo "SmartIO: downloading $package=$debian for its headers; it is not installed."
    (cd "$scratch" && apt-get download "$package=$debian" && dpkg-deb -x "$package"_*.deb .) ||
        refuse "$package=$debian cannot be downloaded. Install it, then build again."
    source=$scratch$source
fi
tar -xJf "$source" -C "$scratch" --wildcards "linux-source-$series/Makefile" "linux-source-$series/block/*.h" ||
    refuse "$source cannot be unpacked."
tree=$scratch/linux-source-$series
part() {
    sed -n "s/^$1 = //p" "$tree/Makefile" | head -n 1
}
found=$(part VERSION).$(part PATCHLEVEL).$(part SUBLEVEL)
test "$found" = "$version" ||
    refuse "$source is of Linux $found, and the kernel is $version. Install the source package of that version."
for name in elevator.h blk.h blk-mq.h blk-mq-sched.h; do
    test -e "$tree/block/$name" || refuse "$source lacks block/$name."
done
mkdir -p "$to"
cp "$tree"/block/*.h "$to"
touch "$to/checked"
