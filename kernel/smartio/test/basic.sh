# SPDX-License-Identifier: GPL-2.0-only
# In a guest that has only busybox: loads the module, reads and writes a device in memory with it, switches, removes. Prints one
# line for each check, `ok` or `FAILED` first; the kernel's complaints last. Argument: how often the module is loaded and removed.
rounds=$1
failed=0

check() {
    if test "$2" = 0; then echo "ok      $1"; else echo "FAILED  $1"; failed=$((failed + 1)); fi
}

use() {
    echo $1 >/sys/block/serial/queue/scheduler 2>/dev/null && grep -q "\[$1\]" /sys/block/serial/queue/scheduler
}

# FLAGS: writes and reads four parts of the device at the same time, and compares.
both_ways() {
    for part in 0 1 2 3; do
        (dd if=/tmp/random of=/dev/serial bs=64k seek=$((part * 64)) conv=notrunc,fsync $1 2>/dev/null &&
            dd if=/dev/serial bs=4k skip=$((part * 1024)) count=1024 iflag=direct 2>/dev/null | cmp - /tmp/random) &
        parts="$parts $!"
    done
    result=0
    for part in $parts; do wait $part || result=1; done
    parts=
    return $result
}

mkdir -p /config
mount -t configfs none /config
dmesg -c >/dev/null
dd if=/dev/urandom of=/tmp/random bs=1M count=4 2>/dev/null
at=/config/nullb/serial
mkdir $at
for setting in memory_backed=1 size=64 irqmode=2 completion_nsec=100000 submit_queues=1 hw_queue_depth=1; do
    echo ${setting#*=} >$at/${setting%%=*}
done
echo 1 >$at/power
lost=0 turn=0
while test $turn -lt $rounds; do
    turn=$((turn + 1))
    insmod module/smartio-iosched.ko && use smartio || lost=$((lost + 1))
    both_ways oflag=direct || lost=$((lost + 1))
    # The page cache writes back while the device is read.
    both_ways || lost=$((lost + 1))
    test "$(cat /sys/block/serial/queue/iosched/rand_read_dispatched_requests)" -gt 0 || lost=$((lost + 1))
    both_ways &
    for scheduler in none smartio none; do use $scheduler || lost=$((lost + 1)); done
    wait $! || lost=$((lost + 1))
    rmmod smartio-iosched || lost=$((lost + 1))
done
test $lost = 0
check "$(uname -m): loaded, used, switched under load and removed $rounds times" $?
echo 0 >$at/power
rmdir $at
complaints=$(dmesg | grep -E "WARNING|BUG|Call trace|Call Trace|refcount|hung|RCU|rcu_|Oops|stall|UBSAN|objects remaining" | grep -v "rcu: .*offload")
test -z "$complaints"
check "the kernel has nothing to complain of" $?
test -z "$complaints" || dmesg | tail -n 60
exit $failed
