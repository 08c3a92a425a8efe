# SPDX-License-Identifier: GPL-2.0-only
# In a guest: records what a scheduler decides on $FONIO_DEVICE, which takes one request at a time, and writes LOAD-SCHEDULER.csv.
#
#     decisions.sh SCHEDULER...
queue=/sys/block/$(basename $FONIO_DEVICE)/queue
load() {
    name=$1 scheduler=$2
    shift 2
    fonio record --device $FONIO_DEVICE --blocked none -o $name -- fio --filename=$FONIO_DEVICE --direct=1 --bs=4k --size=64m \
        --norandommap --randseed=1 --ioengine=libaio --number_ios=60 "$@" >/dev/null || exit
    fonio export $name --format csv -o $name-$scheduler.csv >/dev/null || exit
    rm -r $name
}
for scheduler in "$@"; do
    echo $scheduler >$queue/scheduler && echo 64 >$queue/nr_requests || exit
    load plain $scheduler --name=r1 --rw=randread --iodepth=3 --name=r2 --rw=randread --offset=64m --iodepth=2 \
        --name=w1 --rw=randwrite --offset=128m --iodepth=4 --name=w2 --rw=write --offset=192m --iodepth=2
    load classes $scheduler --name=r1 --rw=randread --iodepth=2 --prioclass=1 --prio=2 --thinktime=500 \
        --name=r2 --rw=randread --offset=64m --iodepth=4 --name=w1 --rw=randwrite --offset=128m --iodepth=4 \
        --name=w2 --rw=randwrite --offset=192m --iodepth=4 --prioclass=3
done
