HOT=$CARD/app; mkdir $HOT
trap 'umount -q $HOT || true; umount $CARD' EXIT
BELOW=$(basename $(findmnt -n -o SOURCE $CARD))
flushes() { awk '{ print $16 }' /sys/block/$BELOW/stat; }
$FONIO fix apply hot-range=10MiB $HOT
sync; sleep 0.2; BEFORE=$(flushes)
for n in 1 2 3 4; do dd if=/dev/zero of=$HOT/file bs=4k count=1 conv=notrunc,fsync status=none; done
AFTER=$(flushes)
echo "flushes: $BEFORE, then $AFTER"
test $((AFTER - BEFORE)) -ge 4
$FONIO fix undo
echo flushed

#= flushed
