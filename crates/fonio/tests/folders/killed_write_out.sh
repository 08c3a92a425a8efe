for n in $(seq 40); do head -c 300000 /dev/zero | tr '\0' o >$LOG/file$n; done
$FONIO fix apply folder-in-ram=64MiB $LOG
mkdir /run/below; mount --bind $DIR /run/below
whole() { for n in $(seq 40); do tr -s o1-8 <$1/file$n; test $(stat -c %s $1/file$n) = 300000; done; }
for round in 1 2 3 4 5 6 7 8; do
    for n in $(seq 40); do head -c 300000 /dev/zero | tr '\0' $round >$LOG/file$n; done
    $FONIO folder write-out $LOG >/dev/null & OUT=$!
    sleep 0.0$round; kill -9 $OUT 2>/dev/null || true; wait $OUT 2>/dev/null || true
    found=$(whole /run/below/log)
    echo "round $round: $found"
    test ${#found} = 40
done
$FONIO folder write-out $LOG >/dev/null
tell $LOG >$DIR/memory; tell /run/below/log | cmp - $DIR/memory
fails sh -c 'ls -A /run/below/log | grep fonio'
umount /run/below

#= round 8
