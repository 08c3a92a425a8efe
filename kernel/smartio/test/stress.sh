# SPDX-License-Identifier: GPL-2.0-only
# In a guest: loads the module, serves I/O on blk-mq devices with it, and switches, reloads, removes. Prints one line for each
# check, `ok` or `FAILED` first; the kernel's complaints last. Arguments: the rounds of reloading, the seconds of load.
rounds=$1 seconds=$2
failed=0

check() {
    if test "$2" = 0; then echo "ok      $1"; else echo "FAILED  $1"; failed=$((failed + 1)); fi
}

# NAME MODE QUEUES DEPTH [ZONED]: a device in memory that completes requests by a timer after 100 us (2), or in a softirq (1).
device() {
    at=/config/nullb/$1
    mkdir $at
    for setting in memory_backed=1 size=256 irqmode=$2 completion_nsec=100000 submit_queues=$3 hw_queue_depth=$4 zoned=${5:-0}; do
        echo ${setting#*=} >$at/${setting%%=*}
    done
    echo 1 >$at/power
}

use() {
    echo $2 >/sys/block/$1/queue/scheduler 2>/dev/null && grep -q "\[$2\]" /sys/block/$1/queue/scheduler
}

verify() {
    fio --name=verify --filename=/dev/$1 --direct=1 --bs=4k --size=64m --randseed=1 --verify=crc32c --rw=randrw \
        --ioengine=psync --thread --numjobs=4 --offset_increment=64m --time_based --runtime=$2 \
        --verify_backlog=256 --verify_fatal=1 >/tmp/fio.out 2>&1 || { tail -n 5 /tmp/fio.out; return 1; }
}

mkdir -p /config
mount -t configfs none /config
dmesg -c >/dev/null
insmod module/smartio-iosched.ko
check "the module is loaded" $?
device serial 2 1 1
device deep 2 2 32
device soft 1 1 8
for name in serial deep soft; do
    use $name smartio
    check "$name: SmartIO is its scheduler" $?
    echo 64 >/sys/block/$name/queue/nr_requests
    verify $name $seconds
    check "$name: four programs read back what they wrote" $?
    test "$(cat /sys/block/$name/queue/iosched/waiting_requests)$(cat /sys/block/$name/queue/iosched/in_flight_requests)" = 00
    check "$name: nothing waits or is in flight afterwards" $?
done
test "$(cat /sys/block/serial/queue/iosched/rand_write_dispatched_requests)" -gt 0
check "statistics count" $?
echo 7 >/sys/block/serial/queue/iosched/slice_ms && test "$(cat /sys/block/serial/queue/iosched/slice_ms)" = 7
check "a setting is kept" $?
! echo 0 2>/dev/null >/sys/block/serial/queue/iosched/quantum_requests
check "a setting out of range is refused" $?

# Merging: one program queues 32 neighbours at once, upwards and downwards.
for direction in write write:-8k; do
    before=$(cat /sys/block/serial/queue/iosched/merged_requests)
    fio --name=merge --filename=/dev/serial --direct=1 --bs=4k --size=8m --rw=$direction --ioengine=libaio --iodepth=32 \
        --number_ios=1000 >/tmp/fio.out 2>&1 || tail -n 5 /tmp/fio.out
    merged=$(($(cat /sys/block/serial/queue/iosched/merged_requests) - before))
    test $merged -gt 100
    check "neighbours merge ($direction: $merged of 1000)" $?
done

# Switching while four programs read and write.
verify deep $seconds &
load=$!
switched=0
while kill -0 $load 2>/dev/null; do
    for scheduler in smartio mq-deadline smartio none; do
        use deep $scheduler && switched=$((switched + 1))
        sleep 1
    done
done
wait $load
check "deep: switched $switched times while it was read and written" $?

# A processor leaves and returns while the device is used.
if test -e /sys/devices/system/cpu/cpu1/online; then
    use deep smartio
    verify deep $seconds &
    load=$!
    while kill -0 $load 2>/dev/null; do
        echo 0 >/sys/devices/system/cpu/cpu1/online; sleep 1
        echo 1 >/sys/devices/system/cpu/cpu1/online; sleep 1
    done
    wait $load
    check "deep: a processor left and returned" $?
fi

# A program for each I/O class.
use serial smartio
for class in 1 2 3; do
    fio --name=class --filename=/dev/serial --direct=1 --bs=4k --size=4m --rw=randrw --prioclass=$class --prio=3 \
        --randseed=$class >/dev/null 2>&1
    check "serial: I/O class $class" $?
done

# A file system, with flushes and FUA writes.
if mkfs.ext4 -q -F /dev/soft && mkdir -p /mnt/soft && mount -o discard /dev/soft /mnt/soft; then
    fio --name=fsync --directory=/mnt/soft --rw=randwrite --bs=4k --size=4m --fsync=4 --verify=crc32c --do_verify=1 >/dev/null 2>&1
    check "soft: ext4 with fsync" $?
    rm -f /mnt/soft/fsync*
    umount /mnt/soft
    check "soft: unmounted" $?
fi

# A zoned device needs the order of its writes.
if device zoned 2 1 8 1 2>/dev/null && test -e /sys/block/zoned; then
    ! use zoned smartio
    check "zoned: refused" $?
    echo 0 >/config/nullb/zoned/power; rmdir /config/nullb/zoned
fi

# The device goes while it is used.
use soft smartio
fio --name=gone --filename=/dev/soft --direct=1 --bs=4k --size=64m --rw=randrw --ioengine=psync --thread --numjobs=4 \
    --time_based --runtime=5 --continue_on_error=all >/dev/null 2>&1 &
sleep 1
echo 0 >/config/nullb/soft/power
wait
rmdir /config/nullb/soft
check "soft: removed while it was read and written" $?

! rmmod smartio-iosched 2>/dev/null
check "the module stays while devices use it" $?
for name in serial deep; do use $name none; done
rmmod smartio-iosched
check "the module is removed" $?

# Removal and return, with I/O in between.
at=0 lost=0
while test $at -lt $rounds; do
    at=$((at + 1))
    insmod module/smartio-iosched.ko && use serial smartio && echo 64 >/sys/block/serial/queue/nr_requests || lost=$((lost + 1))
    dd if=/dev/zero of=/dev/serial bs=64k count=4 oflag=direct 2>/dev/null &
    dd if=/dev/serial of=/dev/null bs=4k count=64 iflag=direct 2>/dev/null
    wait
    use serial none && rmmod smartio-iosched || lost=$((lost + 1))
done
test $lost = 0
check "loaded, used and removed $rounds times" $?

for name in serial deep; do echo 0 >/config/nullb/$name/power; rmdir /config/nullb/$name; done
complaints=$(dmesg | grep -E "WARNING|BUG|Call Trace|refcount|hung|RCU|rcu_|Oops|stall|UBSAN|objects remaining" | grep -v "rcu: .*offload")
test -z "$complaints"
check "the kernel has nothing to complain of" $?
test -z "$complaints" || dmesg | tail -n 60
exit $failed
