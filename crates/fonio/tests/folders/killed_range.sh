HOT=$CARD/app; mkdir $HOT
trap 'umount -q $HOT || true; umount $CARD' EXIT
for n in $(seq 20); do head -c 60000 /dev/urandom >$HOT/file$n; done
tell $HOT >$DIR/before
for round in $(seq 16); do
    timeout -s KILL 0.$(printf %02d $((round * 3))) $FONIO fix apply hot-range=10MiB $HOT >/dev/null || true
    tell $HOT | cmp - $DIR/before
    findmnt $HOT >/dev/null && echo has it || echo has it not
    echo $round >$HOT/number; tell $HOT >$DIR/before
    timeout -s KILL 0.$(printf %02d $((round * 2))) $FONIO fix undo >/dev/null || true
    tell $HOT | cmp - $DIR/before
    if test -e /run/fonio/settings.json || test -e /var/lib/fonio; then $FONIO fix undo >/dev/null || true; fi
    tell $HOT | cmp - $DIR/before
    ! findmnt $HOT; ! test -e $CARD/.fonio-hot-range; cmp /etc/fstab $DIR/fstab
    ! losetup -n -O BACK-FILE | grep hot-range
done
echo each time
