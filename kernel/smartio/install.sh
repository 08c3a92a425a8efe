#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# install.sh [DEVICE...]: build the module for the running kernel, install and load it, and use it for these block devices until
# the next boot: sudo sh install.sh mmcblk0
set -eu
cd "$(dirname "$0")"
kernel=${KERNEL:-$(uname -r)}
headers=${HEADERS:-/lib/modules/$kernel/build}

refuse() {
    echo "SmartIO: $1" >&2
    exit 1
}

test "$(id -u)" = 0 || refuse "installing a kernel module needs root. Run: sudo sh install.sh $*"
for tool in make cc xz dpkg-deb; do
    command -v $tool >/dev/null || refuse "$tool is missing. Run: sudo apt install make gcc xz-utils dpkg"
done
for device in "$@"; do
    test -e "/sys/block/$device/queue/scheduler" ||
        refuse "/sys/block has no device $device with a scheduler. It has: $(ls /sys/block | tr '\n' ' ')"
done
make -s KERNEL="$kernel" HEADERS="$headers" install ||
    refuse "the module was not built or not installed; the reason is above. Nothing else was changed."
if ! said=$(modprobe smartio-iosched 2>&1); then
    case $said in
    *"Key was rejected by service"* | *"Required key not available"*)
        refuse "the kernel refused the module because it is not signed (Secure Boot). Either let DKMS sign it: sudo apt install \
dkms mokutil; sudo dkms install $PWD; sudo mokutil --import /var/lib/dkms/mok.pub; reboot, and confirm the key in the blue menu. Or \
switch Secure Boot off in the firmware."
        ;;
    *"Invalid module format"* | *"Exec format error"*)
        refuse "the module is not of the running kernel, Linux $(uname -r). Reboot into the newest installed kernel, and run this again."
        ;;
    esac
    refuse "the module was installed, but the kernel did not load it: $said"
fi
for device in "$@"; do
    echo smartio >"/sys/block/$device/queue/scheduler" ||
        refuse "$device did not take SmartIO; \`dmesg | tail\` may say why. Zoned devices need mq-deadline."
    echo "$device: $(cat "/sys/block/$device/queue/scheduler")"
done
test $# -gt 0 || echo "Loaded. To use it: echo smartio | sudo tee /sys/block/mmcblk0/queue/scheduler"
