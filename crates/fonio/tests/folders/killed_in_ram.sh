for n in $(seq 20); do head -c 300000 /dev/urandom >$LOG/file$n; done
tell $LOG >$DIR/before
for round in 1 2 3 4 5 6 7 8 9; do
    $FONIO fix apply folder-in-ram=64MiB $LOG >/dev/null & APPLY=$!
    sleep 0.0$round; kill -9 $APPLY 2>/dev/null || true; wait $APPLY 2>/dev/null || true
    tell $LOG | cmp - $DIR/before
    $FONIO fix undo >/dev/null & UNDO=$!
    sleep 0.0$round; kill -9 $UNDO 2>/dev/null || true; wait $UNDO 2>/dev/null || true
    tell $LOG | cmp - $DIR/before
    if test -e /run/fonio/settings.json; then $FONIO fix undo; fi
    tell $LOG | cmp - $DIR/before
    fails findmnt $LOG
    fails test -e /run/fonio/settings.json
done
echo each time

#= each time
