# SPDX-License-Identifier: GPL-2.0-only
# In a guest: files on $FONIO_MOUNT, a file system on $FONIO_DEVICE. Its words are those of compare.sh, which it needs beside it.
. "$(dirname "$0")/compare.sh"

# A reader with pauses: alone, beside an fsync every second, and beside the write-back of a large copy with an fsync ten times a
# second. Each start has other sectors and other pauses.
files() {
    paced="--rw=randread --direct=1 --ioengine=psync --filename=data --size=32m --thinktime=$((1000 + (start * 37) % 16)) \
        --time_based $of_reader"
    synced="--rw=write --ioengine=psync --fsync=1 --filename=log --size=16m --time_based $of_writer"
    of_fio="fio --output-format=json --bs=4k --norandommap --randseed=$start"
    $of_fio --name=paced $paced --runtime=1
    $of_fio --name=fsync $paced --runtime=2 --name=fsync $synced --thinktime=1000000 --runtime=2
    before=$(awk '{ print $7 }' ${queue%/queue}/stat)
    (
        trap 'kill $dd; wait; exit' TERM
        while :; do
            dd if=/dev/zero of=copy bs=1M count=192 2>/dev/null &
            dd=$!
            wait $dd
        done
    ) &
    copy=$!
    $of_fio --name=copy $paced --runtime=8 --name=copy $synced --thinktime=$((100000 + (start * 61) % 16)) --runtime=8
    echo "== copy_mib_s $(awk -v before=$before '{ print ($7 - before) / 2048 / 8 }' ${queue%/queue}/stat)"
    kill $copy
    wait
    # Nothing of the copy is written beside the next start.
    rm -f copy
    sync
}

cd $FONIO_MOUNT || exit
fio --name=data --filename=data --rw=write --bs=1m --size=32m --end_fsync=1 >/dev/null || exit
start=0
while test $start -lt $starts; do
    start=$((start + 1))
    of_start
    files
done
cd /
