# SPDX-License-Identifier: GPL-2.0-only
# In a guest: one part of the comparison of schedulers on $FONIO_DEVICE (`cost`: on a device in memory). Prints fio's JSON for
# each run, and `== NAME VALUE` for other values.
#
#     compare.sh PART SCHEDULER IOS STARTS [KEY=VALUE of the scheduler | reader:OPTION | writer:OPTION of fio]...
part=$1 scheduler=$2 ios=$3 starts=$4
shift 4

if test $part = cost; then
    mkdir -p /config
    mount -t configfs none /config
    mkdir /config/nullb/cost
    # Requests complete in a softirq, at once: all time is the processor's.
    for setting in size=256 irqmode=1 submit_queues=1 hw_queue_depth=64; do
        echo ${setting#*=} >/config/nullb/cost/${setting%%=*}
    done
    echo 1 >/config/nullb/cost/power
    FONIO_DEVICE=/dev/cost
fi
queue=/sys/block/$(basename $FONIO_DEVICE)/queue
echo $scheduler >$queue/scheduler || exit
grep -q "\[$scheduler\]" $queue/scheduler || exit
# Without a scheduler, the device's own depth is the number of requests.
test $scheduler = none || echo 64 >$queue/nr_requests || exit
of_reader= of_writer=
for word in "$@"; do
    case $word in
    reader:*) of_reader="$of_reader ${word#*:}" ;;
    writer:*) of_writer="$of_writer ${word#*:}" ;;
    *) echo ${word#*=} >$queue/iosched/${word%%=*} || exit ;;
    esac
done

# Think times from 1 to 16 us, from the number of the start: the study's processes have none, but without them a load can lock
# into one of several phases.
of_start() {
    reader="--ioengine=psync --thinktime=$(((start * 37) % 16 + 1)) $of_reader"
    writer="--ioengine=psync --thinktime=$(((start * 61) % 16 + 1)) $of_writer"
}

raw() {
    fio --output-format=json --clat_percentiles=0 --filename=$FONIO_DEVICE --direct=1 --bs=4k --size=64m --norandommap \
        --randseed=$start --number_ios=$ios "$@"
}

# Pairs of readers and writers, as in sections 4.3 and 7.2 of the study.
pairs() {
    read="--rw=$1read $reader" write="--rw=$1write --offset=1g $writer"
    four="--numjobs=4 --offset_increment=64m --number_ios=$((ios / 4))"
    raw --name=read-alone $read --name=write-alone --stonewall $write --name=1x1 --stonewall $read --name=1x1 $write \
        --name=4x4 --stonewall $read $four --name=4x4 $write $four
}

# A reader beside a writer with 32 requests at a time, and the throughput of reads and of writes alone.
deep() {
    at_once="--ioengine=libaio --iodepth=32 --offset=1g"
    raw --name=one-alone --rw=randread $reader --name=reads --stonewall --rw=randread $at_once --number_ios=$((ios * 4)) \
        --name=writes --stonewall --rw=randwrite $at_once --number_ios=$((ios * 4))
    raw --name=beside --rw=randread $reader --exitall --name=beside --rw=randwrite $at_once $of_writer --number_ios=1000000
}

# Readers that never end beside a writer.
endless() {
    raw --name=endless --rw=randread --ioengine=libaio --iodepth=8 $of_reader --number_ios=10000000 --time_based --runtime=3 \
        --name=endless --rw=randwrite --offset=1g $writer --number_ios=10000000 --time_based --runtime=3
    test ! -e $queue/iosched/write_late_ns_max || echo "== late_ns $(cat $queue/iosched/write_late_ns_max)"
}

start=0
while test $start -lt $starts; do
    start=$((start + 1))
    of_start
    case $part in
    seq) pairs "" ;;
    rand) pairs rand ;;
    deep)
        deep
        test $start -gt 1 || endless
        ;;
    cost)
        for op in read write; do
            raw --name=serial --rw=rand$op --ioengine=psync --number_ios=$((ios * 100))
            raw --name=deep --rw=rand$op --ioengine=libaio --iodepth=16 --number_ios=$((ios * 100))
        done
        # One program that reads and writes by turns; its time includes waits.
        raw --name=turns --rw=randrw --ioengine=psync --number_ios=$((ios * 100))
        ;;
    esac
done
