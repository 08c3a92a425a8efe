# SPDX-License-Identifier: GPL-2.0-only
# In a guest: loads the module, serves I/O on blk-mq devices with it, and switches, reloads, removes. Prints one line for each
# check, `ok` or `FAILED` first; the kernel's complaints last. Arguments: the rounds of reloading, the seconds of load, and how
# many requests mixed load makes at the end (0: none).
rounds=$1 seconds=$2 requests=$3
failed=0

check() {
    if test "$2" = 0; then echo "ok      $1"; else echo "FAILED  $1"; failed=$((failed + 1)); fi
}

# NAME MODE QUEUES DEPTH [ZONED [NS]]: a device in memory that completes requests by a timer (2; 100 us), or in a softirq (1).
device() {
    at=/config/nullb/$1
    mkdir $at
    for setting in memory_backed=1 size=256 irqmode=$2 completion_nsec=${6:-100000} submit_queues=$3 hw_queue_depth=$4 zoned=${5:-0}; do
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

# A new number of requests freezes the queue.
use deep smartio
verify deep $seconds &
load=$!
changed=0
while kill -0 $load 2>/dev/null; do
    for number in 4 256 32 64; do
        echo $number >/sys/block/deep/queue/nr_requests && changed=$((changed + 1))
        sleep 0.2
    done
done
wait $load
check "deep: nr_requests changed $changed times while it was read and written" $?

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
for class in realtime best_effort idle; do
    test "$(cat /sys/block/serial/queue/iosched/${class}_dispatched_requests)" -gt 0
    check "serial: requests of the class $class are known as such" $?
done
# GROUP PROGRAMS: the reads a second of programs in a control group, each with one random read at a time.
reads_of() {
    sh -c 'echo $$ >/groups/$1/cgroup.procs && exec fio --minimal --filename=/dev/slow --direct=1 --bs=4k --size=64m --name=read \
        --rw=randread --ioengine=psync --thread --group_reporting --time_based --runtime=$3 --numjobs=$2' sh $1 $2 $seconds |
        cut -d ';' -f 8
}

# A memory card behind the kernel's MMC driver, which says that it takes 64 requests.
if test -e /dev/mmcblk0; then
    whole=$(cat /sys/block/mmcblk0/queue/max_sectors_kb)
    use mmcblk0 smartio && test "$(cat /sys/block/mmcblk0/mq/0/nr_tags) $(cat /sys/block/mmcblk0/queue/iosched/device_requests_max)" = "64 2"
    check "mmcblk0: it takes two requests at once, whatever its driver says" $?
    verify mmcblk0 $seconds
    check "mmcblk0: four programs read back what they wrote" $?
    # Write-back beside a reader that pauses: in pieces, until the scheduler ends.
    smallest=$whole
    fio --name=paced --filename=/dev/mmcblk0 --direct=1 --bs=4k --size=16m --rw=randread --thinktime=500 --time_based \
        --runtime=$seconds >/dev/null 2>&1 &
    reader=$!
    head -c 8388608 /dev/urandom >/tmp/random
    while kill -0 $reader 2>/dev/null; do
        dd if=/tmp/random of=/dev/mmcblk0 bs=1M seek=32 conv=notrunc,fsync 2>/dev/null &
        writer=$!
        while kill -0 $writer 2>/dev/null; do
            now=$(cat /sys/block/mmcblk0/queue/max_sectors_kb)
            test $now -ge $smallest || smallest=$now
            sleep 0.02
        done
    done
    dd if=/dev/mmcblk0 bs=1M skip=32 count=8 iflag=direct 2>/dev/null | cmp - /tmp/random
    check "mmcblk0: what was written back beside a reader is read" $?
    test $smallest -lt $whole
    check "mmcblk0: write-back beside a reader goes in pieces (of $smallest KiB instead of $whole)" $?
    use mmcblk0 none
    check "mmcblk0: without a scheduler again" $?
    test "$(cat /sys/block/mmcblk0/queue/max_sectors_kb)" = $whole
    check "mmcblk0: requests have their full size again" $?
else
    check "mmcblk0: the card is there" 1
fi

# A SCSI disk that takes one request at once, although its host takes more.
disk=$(ls /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block 2>/dev/null)
if test -n "$disk"; then
    echo 1 >/sys/block/$disk/device/queue_depth
    use $disk smartio && test "$(cat /sys/block/$disk/queue/iosched/device_requests_max)" = 1
    check "a SCSI disk: it takes one request at once" $?
    head -c 4194304 /dev/urandom >/tmp/random && dd if=/tmp/random of=/dev/$disk bs=64k oflag=direct 2>/dev/null &&
        dd if=/dev/$disk bs=4k count=1024 iflag=direct 2>/dev/null | cmp - /tmp/random
    check "a SCSI disk: what was written is read" $?
    use $disk none
    check "a SCSI disk: without a scheduler again" $?
else
    check "a SCSI disk is there" 1
fi

# Weights of control groups: a group without one has that of the group above it. The device is slower than the processor.
device slow 2 1 1 0 5000000
use slow smartio && echo 64 >/sys/block/slow/queue/nr_requests
mkdir -p /groups
mount -t cgroup2 none /groups && echo +io >/groups/cgroup.subtree_control
check "control groups are there" $?
mkdir -p /groups/front /groups/slice && echo +io >/groups/slice/cgroup.subtree_control && mkdir /groups/slice/back
beside() {
    reads_of slice/back 4 >/tmp/back &
    front=$(reads_of front 1)
    wait $!
    back=$(cat /tmp/back)
}
beside
equal=$front
echo 12 >/groups/slice/io.smartio.weight && test "$(cat /groups/slice/io.smartio.weight) $(cat /groups/front/io.smartio.weight)" = "12 0"
check "slow: a weight is kept" $?
! echo 10001 2>/dev/null >/groups/slice/io.smartio.weight && ! test -e /groups/io.smartio.weight
check "slow: a weight out of range is refused, and the root has none" $?
beside
test $((front * 2)) -gt $back && test $((front * 2)) -gt $((equal * 3))
check "slow: one reader beside four of a group of low weight: $front and $back reads a second; $equal before" $?
echo 0 >/groups/slice/io.smartio.weight
use slow none
echo 0 >/config/nullb/slow/power
rmdir /config/nullb/slow

# The class of a control group, which the block layer gives to its requests.
if mkdir /groups/backup && test -e /groups/backup/io.prio.class; then
    echo idle >/groups/backup/io.prio.class
    before=$(cat /sys/block/serial/queue/iosched/idle_dispatched_requests)
    sh -c 'echo $$ >/groups/backup/cgroup.procs && exec dd if=/dev/serial of=/dev/null bs=4k count=50 iflag=direct 2>/dev/null'
    test "$(cat /sys/block/serial/queue/iosched/idle_dispatched_requests)" -ge $((before + 50))
    check "serial: the class of a control group (io.prio.class)" $?
else
    echo "skipped serial: the class of a control group: this kernel has no io.prio.class (CONFIG_BLK_CGROUP_IOPRIO)"
fi

# Readers that never end leave something to a writer.
before=$(cat /sys/block/serial/queue/iosched/rand_write_dispatched_requests)
fio --filename=/dev/serial --direct=1 --bs=4k --size=64m --time_based --runtime=$seconds --name=read --rw=randread \
    --ioengine=libaio --iodepth=8 --numjobs=2 --name=write --rw=randwrite --ioengine=psync >/tmp/fio.out 2>&1
written=$(($(cat /sys/block/serial/queue/iosched/rand_write_dispatched_requests) - before))
test $written -gt 0
check "serial: $written writes in $seconds s beside readers that never end" $?

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
    said=$( (echo smartio >/sys/block/zoned/queue/scheduler) 2>&1)
    code=$?
    ! grep -q "\[smartio\]" /sys/block/zoned/queue/scheduler && test $code != 0
    check "zoned: refused (exit code $code; ${said##*: })" $?
    case $(uname -r) in
    6.1.*) echo "skipped zoned: the kernel's log says why: this kernel refuses by itself, without a word" ;;
    *)
        dmesg | grep -q "smartio: zoned devices need their writes in order; use mq-deadline"
        check "zoned: the kernel's log says why" $?
        ;;
    esac
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
! test -e /groups/front/io.smartio.weight
check "the weights of control groups are gone with it" $?

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

# DEVICE REQUESTS DEPTH: mixed load until so many requests went or were merged. Four programs with DEPTH requests each, which they
# send and collect in batches: in a guest, most of a request's time is that of system calls and interrupts.
# One of a hundred more, because neighbours of a batch can merge before they reach the scheduler.
mixed() {
    use $1 smartio
    fio --name=mixed --filename=/dev/$1 --direct=1 --bsrange=4k-16k --size=256m --io_size=$(($2 / 4 * 16))k --rw=randrw \
        --ioengine=libaio --iodepth=$3 --iodepth_batch_submit=$(($3 / 2)) --iodepth_batch_complete_min=$(($3 / 4)) --numjobs=4 \
        --gtod_reduce=1 --randrepeat=0 --norandommap --number_ios=$(($2 / 4 + $2 / 400)) >/tmp/fio.out 2>&1 || tail -n 5 /tmp/fio.out
    of_kinds=0
    for kind in seq_read rand_read seq_write rand_write; do
        of_kinds=$((of_kinds + $(cat /sys/block/$1/queue/iosched/${kind}_dispatched_requests)))
    done
    merged=$(cat /sys/block/$1/queue/iosched/merged_requests)
    test $((of_kinds + merged)) -ge $2
    check "$1: $of_kinds requests of mixed load, and $merged merged" $?
    use $1 none
}
if test $requests -gt 0; then
    insmod module/smartio-iosched.ko
    # The device that takes one request is slow, and the only one whose readers take turns. The other one completes requests
    # without a timer, 64 at a time.
    device quick 1 2 64
    mixed serial $((requests / 100)) 8
    mixed quick $requests 64
    rmmod smartio-iosched
    echo 0 >/config/nullb/quick/power
    rmdir /config/nullb/quick
fi

for name in serial deep; do echo 0 >/config/nullb/$name/power; rmdir /config/nullb/$name; done
complaints=$(dmesg | grep -E "WARNING|BUG|Call Trace|refcount|hung|RCU|rcu_|Oops|stall|UBSAN|objects remaining" | grep -v "rcu: .*offload")
test -z "$complaints"
check "the kernel has nothing to complain of" $?
test -z "$complaints" || dmesg | tail -n 60
exit $failed
