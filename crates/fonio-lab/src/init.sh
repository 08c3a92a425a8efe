#!/usr/bin/busybox sh
# The first program of a guest: prepares the system, runs the command, sends the result files to the host, and ends the guest.
/usr/bin/busybox --install -s /usr/bin 2>/dev/null
# /usr/sbin comes before /usr/bin, because busybox's programs in /usr/bin have fewer options.
export PATH=/usr/sbin:/usr/bin HOME=/root TERM=linux
mount -t proc proc /proc
mount -t sysfs sys /sys
# Linux makes the root of an initial file system writable for everybody.
chmod 755 /
chmod 1777 /tmp /var/tmp
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/shm /dev/pts
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run
mount -t tracefs trace /sys/kernel/tracing
mount -t cgroup2 cgroup /sys/fs/cgroup
# For commands that get a share of the processor or of the memory. A kernel may lack a controller.
for controller in cpu cpuset memory; do
    echo +$controller >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null
done
hostname lab
# A guest has little memory, and ends with its command.
export FONIO_SPARSE_MEMORY=1
ip link set lo up
for module in /modules/*.ko; do
    test ! -f "$module" || insmod "$module" || echo "the module $module is not loaded"
done
if test -f /etc/fonio/programs; then
    for disk in /sys/block/vd*; do
        test "$(cat "$disk/serial")" != programs || mount -t ext4 -o ro "/dev/${disk##*/}" "$(cat /etc/fonio/programs)"
    done
fi

# The device of a port of the host.
port() {
    for port in /sys/class/virtio-ports/*; do
        test "$(cat "$port/name")" != "$1" || echo "/dev/${port##*/}"
    done
}

if test ! -f /etc/fonio/command; then
    cd /root
    setsid cttyhack sh
    poweroff -f
fi

exec 3<>"$(port fonio.control)"
echo "begin $(uname -r) $(cut -d ' ' -f 1 /proc/uptime)" >&3
cd "$(cat /etc/fonio/folder)" || exit
sh /etc/fonio/command </dev/null >"$(port fonio.out)" 2>"$(port fonio.err)"
code=$?
echo "done $code $(cut -d ' ' -f 1 /proc/uptime)" >&3
set --
while read -r path; do
    test ! -e "$path" || set -- "$@" "${path#/}"
done </etc/fonio/bring
bytes=0
test $# = 0 || bytes=$(tar -cf - -C / "$@" | tee "$(port fonio.files)" | wc -c)
echo "end $# $bytes" >&3
# The end of the guest drops what the host has not read yet, and the host can be slow: wait until it has everything.
read -r _ <&3
sync
poweroff -f
