# SPDX-License-Identifier: GPL-2.0-only
# In a guest: readers that never end, on $FONIO_DEVICE. Its words are those of compare.sh, which it needs beside it.
. "$(dirname "$0")/compare.sh"

# Four readers that never end: beside four writers; and beside a program that reads 20 times, then not for 100 ms, by turns.
many() {
    four="--numjobs=4 --offset_increment=64m --number_ios=10000000 --time_based --runtime=1"
    for order in "" rand; do
        raw --clat_percentiles=1 --name=many-${order:-seq} --rw=${order}read $reader $four \
            --name=many-${order:-seq} --rw=${order}write --offset=1g $writer $four
    done
    raw --name=bulk --rw=randread $reader $four --name=short --rw=randread --offset=512m $reader --thinktime=100000 \
        --thinktime_blocks=20 --number_ios=10000000 --time_based --runtime=1
}

start=0
while test $start -lt $starts; do
    start=$((start + 1))
    of_start
    many
done
