# A part of a day of the watch, in a guest whose clock skips idle time. MINUTES is its length, FROM the minute
# of the day at which it begins; the history of the watch is in $FONIO_MOUNT/watch.
#
# minutes 60 to 119 of the day: 50 times, a program writes 16 MiB and syncs, so it is blocked for seconds
# minute 90: the log of the programs is rotated
# minute 180: the machine is suspended for ten minutes
# minutes 240 to 299: the file system with the history is full
device=$(grep " $FONIO_MOUNT " /proc/mounts | cut -d' ' -f1)
echo "devices = [\"${device#/dev/}\"]" >/tmp/watch.toml
state=$FONIO_MOUNT/watch
mkdir -p $state
place="--state $state --run /tmp/run --config /tmp/watch.toml"
fonio watch run $place >&2 &
watch=$!
sleep 5
uptime_s() { cut -d. -f1 /proc/uptime; }
value() { sed -n "s/^$2:[^0-9]*\([0-9]*\).*/\1/p" /proc/$watch/$1; }
stalls=0 memory=0 suspended=none begun=$(uptime_s)
minute=$FROM end=$((FROM + MINUTES))
while [ $minute -lt $end ]; do
    ends=$((begun + (minute - FROM + 1) * 60))
    of_day=$((minute % 1440))
    echo "minute $minute" >>$FONIO_MOUNT/log && sync
    if [ $of_day -ge 60 ] && [ $of_day -lt 120 ] && [ $((of_day % 6)) -ne 5 ]; then
        before=$(cut -d' ' -f1 /proc/uptime | tr -d .)
        dd if=/dev/zero of=$FONIO_MOUNT/big bs=1M count=16 conv=fsync 2>/dev/null
        after=$(cut -d' ' -f1 /proc/uptime | tr -d .)
        # Longer than a stall by a margin, because dd also copies data.
        [ $((after - before)) -lt 130 ] || stalls=$((stalls + 1))
    fi
    case $of_day in
    90) mv $FONIO_MOUNT/log $FONIO_MOUNT/log.1 ;;
    180)
        if rtcwake -m freeze -s 600 >&2; then suspended=suspended; else
            date -s "@$(($(date +%s) + 600))" >&2 && suspended='set forward'
        fi ;;
    esac
    # A share can begin within this hour.
    if [ $of_day -ge 240 ] && [ $of_day -lt 300 ]; then
        [ -e $FONIO_MOUNT/filling ] || dd if=/dev/zero of=$FONIO_MOUNT/filling bs=1M 2>/dev/null
    else
        rm -f $FONIO_MOUNT/filling
    fi
    now=$(value status RssAnon)
    [ ${now:-0} -le $memory ] || memory=$now
    if ! kill -0 $watch; then echo "the watch has ended in minute $minute" >&2; exit 1; fi
    rest=$((ends - $(uptime_s)))
    [ $rest -le 0 ] || sleep $rest
    minute=$((minute + 1))
done
rm -f $FONIO_MOUNT/filling
ticks=$(sed 's/.*) //' /proc/$watch/stat | awk '{ print $12 + $13 }')
elapsed=$(($(uptime_s) - begun))
kill -TERM $watch
# The bytes are read before the process is gone; its last write of the history counts, too.
written=0
while now=$(value io write_bytes 2>/dev/null) && [ -n "$now" ]; do written=$now; sleep 0.01; done
wait $watch
code=$?
kept=$(ls $state/kept /tmp/run/kept 2>/dev/null | grep -c '\.stall$')
echo "DAY {\"exit_code\": $code, \"elapsed_s\": $elapsed, \"stalls\": $stalls, \"kept\": $kept, \"memory_kib\": $memory, \"cpu_ticks\": $ticks, \"written\": $written, \"suspended\": \"$suspended\"}"
echo "REPORT $(fonio watch report --since 2d --json $place | tr -d '\n')"
