# Waits for the end of the killed process: its last system call may take a while. (`timeout` would not wait.)
killed_after() {
    local time=$1; shift
    "$@" >/dev/null & local pid=$!
    sleep $time; kill -9 $pid 2>/dev/null || true; wait $pid 2>/dev/null || true
}
HOT=$CARD/app; mkdir $HOT
trap 'umount -q $HOT || true; umount $CARD' EXIT
for n in $(seq 20); do head -c 60000 /dev/urandom >$HOT/file$n; done
tell $HOT >$DIR/before
for round in $(seq 16); do
    killed_after 0.$(printf %02d $((round * 3))) $FONIO fix apply hot-range=10MiB $HOT
    tell $HOT | cmp - $DIR/before
    findmnt $HOT >/dev/null && echo has it || echo has it not
    echo $round >$HOT/number; tell $HOT >$DIR/before
    killed_after 0.$(printf %02d $((round * 2))) $FONIO fix undo
    tell $HOT | cmp - $DIR/before
    if test -e /run/fonio/settings.json || test -e /var/lib/fonio; then $FONIO fix undo >/dev/null || true; fi
    tell $HOT | cmp - $DIR/before
    fails findmnt $HOT; fails test -e $CARD/.fonio-hot-range; cmp /etc/fstab $DIR/fstab
    fails sh -c "losetup -n -O BACK-FILE | grep $DIR.*hot-range"
done
echo each time
