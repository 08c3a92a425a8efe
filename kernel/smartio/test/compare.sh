# SPDX-License-Identifier: GPL-2.0-only
# In a guest, on an emulated device ($FONIO_DEVICE): readers beside writers under one scheduler, and alone. Prints `== NAME START`
# and fio's JSON for each run. Arguments: the scheduler, `seq` or `rand`, the I/Os of each process, the starts.
scheduler=$1 pattern=$2 ios=$3 starts=$4
queue=/sys/block/$(basename $FONIO_DEVICE)/queue
echo $scheduler >$queue/scheduler || exit
grep -q "\[$scheduler\]" $queue/scheduler || exit
# Without a scheduler, the device's own depth is the number of requests.
test $scheduler = none || echo 64 >$queue/nr_requests
random=
test $pattern = seq || random=rand

run() {
    echo "== $1 $start"
    shift
    fio --output-format=json --clat_percentiles=0 --filename=$FONIO_DEVICE --ioengine=psync --direct=1 --bs=4k --size=64m \
        --norandommap --randseed=$start --number_ios=$ios "$@"
}

start=0
while test $start -lt $starts; do
    start=$((start + 1))
    # Think times from 1 to 96 us, different for readers and writers, from the number of the start.
    reader="--rw=${random}read --thinktime=$(((start * 37) % 96 + 1)) --startdelay=0"
    writer="--rw=${random}write --offset=1g --thinktime=$(((start * 61) % 96 + 1))"
    run read-alone --name=read $reader
    run write-alone --name=write $writer
    run 1x1 --name=read $reader --name=write $writer
    run 4x4 --name=read $reader --numjobs=4 --offset_increment=64m --name=write $writer --numjobs=4 --offset_increment=64m
done
if test -e $queue/iosched/reads_lost_ns_sum; then
    grep . $queue/iosched/* | sed "s|.*/||" >&2
fi
