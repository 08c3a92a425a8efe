# SPDX-License-Identifier: GPL-2.0-only
# In a guest: records what schedulers decide on $FONIO_DEVICE, which takes one request at a time. Each line of the file LOADS is
# `NAME|SCHEDULER|SETTINGS|OPTIONS`: the requests of fio with OPTIONS, under SCHEDULER with SETTINGS, go to NAME.csv.
#
#     decisions.sh LOADS
queue=/sys/block/$(basename $FONIO_DEVICE)/queue
while IFS='|' read -r name scheduler settings options; do
    # A scheduler starts anew for each load, so that none depends on the one before.
    echo none >$queue/scheduler && echo $scheduler >$queue/scheduler && echo 64 >$queue/nr_requests || exit
    for setting in $settings; do
        echo ${setting#*=} >$queue/iosched/${setting%%=*} || exit
    done
    fonio record --device $FONIO_DEVICE --blocked none -o $name -- fio --filename=$FONIO_DEVICE --direct=1 --bs=4k --size=64m \
        --norandommap --randseed=1 --ioengine=libaio --number_ios=40 $options </dev/null >/dev/null || exit
    fonio export $name --format csv -o $name.csv >/dev/null || exit
    rm -r $name
done <"$1"
