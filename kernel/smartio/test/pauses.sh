# SPDX-License-Identifier: GPL-2.0-only
# In a guest: readers that pause, on $FONIO_MOUNT, a file system on $FONIO_DEVICE. Its words are those of compare.sh, which it
# needs beside it.
. "$(dirname "$0")/compare.sh"

# NAME SECONDS COMMAND…: runs a command again and again for a second, then beside the reader, and prints what was written in MiB/s.
beside() {
    name=$1 seconds=$2
    shift 2
    sync
    (
        trap 'kill $job 2>/dev/null; wait; exit' TERM
        while :; do
            "$@" &
            job=$!
            wait $job
        done
    ) >/dev/null 2>&1 &
    load=$!
    sleep 1
    before=$(awk '{ print $7 }' ${queue%/queue}/stat)
    paced_read $name $seconds
    echo "== ${name}_mib_s $(awk -v before=$before -v seconds=$seconds '{ print ($7 - before) / 2048 / seconds }' ${queue%/queue}/stat)"
    kill $load
    wait
    rm -f copy hole
    sync
}

# NAME SECONDS: reads with pauses; without pauses, nothing.
paced_read() {
    case $pause in
    none) sleep $2 ;;
    *)
        fio --output-format=json --bs=4k --norandommap --randseed=$start --name=$1 --rw=randread --direct=1 --ioengine=psync \
            --filename=data --size=32m --thinktime=$((pause + (start * 37) % 16)) --time_based --runtime=$2 $of_reader
        ;;
    esac
}

copy() {
    dd if=/dev/zero of=copy bs=1M count=192
}

# fsyncs 4 KiB after 4 KiB.
commits() {
    fio --name=commits --rw=write --ioengine=psync --bs=4k --fsync=1 --filename=log --size=16m --time_based --runtime=3600 $of_writer
}

discards() {
    fallocate -l 256M hole && rm hole && sync && fstrim .
}

pauses() {
    pause=none
    beside copy-alone 2 copy
    for pause in 100 1000 5000 20000; do
        paced_read alone-$pause 1
        beside copy-$pause 2 copy
        beside commits-$pause 1 commits
        beside discards-$pause 1 discards
    done
}

cd $FONIO_MOUNT || exit
fio --name=data --filename=data --rw=write --bs=1m --size=32m --end_fsync=1 >/dev/null || exit
start=0
while test $start -lt $starts; do
    start=$((start + 1))
    of_start
    pauses
done
cd /
