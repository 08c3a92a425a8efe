# The small guest has busybox, whose dd prints no time. The guest's clock does not depend on this machine.
disk=$(sed -n "s|^/dev/\([^ ]*\) $FONIO_MOUNT .*|\1|p" /proc/mounts)
DEVICE=$(cat /sys/class/block/$disk/dev)
# fonio itself serves the disk, so its own files are in the folder already.
before=$(ls /run/fonio)
left() {
    find /sys/fs/cgroup -name 'fonio-*'
    [ "$(ls /run/fonio)" = "$before" ] || ls /run/fonio
    echo nothing else
}
echo -io >/sys/fs/cgroup/cgroup.subtree_control
echo "off: $(fonio fix apply io-rate=1MB $FONIO_MOUNT -- true 2>&1)"
echo +io >/sys/fs/cgroup/cgroup.subtree_control
from=$(uptime_s)
fonio fix apply io-rate=1MB $FONIO_MOUNT -- dd if=/dev/zero of=$FONIO_MOUNT/a bs=64k count=64 oflag=direct
echo "command: $(echo "$(uptime_s) $from" | awk '{ print 4194304, $1 - $2 }' | judge 1000000)"
fonio fix apply io-rate=1MB $FONIO_MOUNT -- sh -c 'exit 7'; echo "code: $?"
echo "after commands: $(left | tr '\n' ' ')"
fonio fix apply io-rate=1MB $FONIO_MOUNT -- sleep 1000 & pid=$!
sleep 3; child=$(cat /sys/fs/cgroup/fonio-$pid-*/cgroup.procs); kill -9 $pid; sleep 1
echo "killed, child in its group: $(group $child | grep -c fonio-$pid)"
fonio fix undo >/dev/null 2>&1
echo "child after the next start: $(group $child)"
kill -9 $child
echo "after the kill: $(left | tr '\n' ' ')"
fonio fix apply io-rate=1MB $FONIO_MOUNT -- sleep 1000 & pid=$!
sleep 3; kill -TERM $pid; wait $pid; echo "code after SIGTERM: $?"
sh -c "while :; do dd if=/dev/zero of=$FONIO_MOUNT/loop bs=64k count=16 oflag=direct conv=notrunc 2>/dev/null; done" & pid=$!
sleep 1
fonio fix apply io-rate=1MB $FONIO_MOUNT --pid $pid >&2
echo "own group: $(group $pid | grep -c fonio-io-$pid)"
echo "process: $(writes 1000000)"
fonio fix undo >&2
echo "group after undo: $(group $pid)"
kill -9 $pid; sleep 1
echo "after all: $(left | tr '\n' ' ')"
