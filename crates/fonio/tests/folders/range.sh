HOT=$CARD/app; IMAGES=$CARD/.fonio-hot-range; cp -a $LOG $HOT
trap 'umount -q $HOT || true; umount $CARD' EXIT
tell $HOT >$DIR/before
refused() { ! $FONIO fix "$@"; }
refused apply hot-range $HOT
refused apply hot-range=4MiB $HOT
refused apply hot-range=64MiB $HOT
refused apply hot-range=12MiB $CARD
refused apply hot-range=12MiB /run/etc
head -c 9M /dev/urandom >$HOT/large
refused apply hot-range=12MiB $HOT
rm $HOT/large; tell $HOT >$DIR/before
sleep 1000 3>>$HOT/app.log & WRITER=$!; sleep 0.3
refused apply hot-range=12MiB $HOT
kill $WRITER; wait $WRITER || true
chmod o+w $CARD
refused apply hot-range=12MiB $HOT
chmod o-w $CARD
$FONIO fix apply hot-range=12MiB $HOT --dry-run
fails test -e $IMAGES; cmp /etc/fstab $DIR/fstab
$FONIO fix apply hot-range=12MiB $HOT
tell $HOT | cmp - $DIR/before
findmnt -n -o FSTYPE,SOURCE $HOT; losetup -n -O AUTOCLEAR,DIO,BACK-FILE $(findmnt -n -o SOURCE $HOT)
stat -c 'image %b of %B, mode %a' $IMAGES/*
tail -n 1 /etc/fstab; findmnt --verify 2>&1 | grep -A1 app || true
$FONIO fix | sed -n '1,/^$/p'
refused apply hot-range=16MiB $HOT
# The image neither moves nor has parts that are written for the first time.
filefrag -v $IMAGES/* >$DIR/place
for at in 7 3 9 1; do dd if=/dev/urandom of=$HOT/spread bs=64k count=1 seek=$at conv=notrunc,fsync status=none; done
rm $HOT/spread; sync
filefrag -v $IMAGES/* | cmp - $DIR/place
echo three >>$HOT/app.log; rm $HOT/sub/deep; mv $HOT/sub $HOT/moved; echo new >$HOT/moved/new
tell $HOT >$DIR/during
umount $HOT
refused undo
refused apply hot-range=12MiB $HOT
mount $HOT
tell $HOT | cmp - $DIR/during
sleep 1000 3>>$HOT/app.log & WRITER=$!; sleep 0.3
refused undo
kill $WRITER; wait $WRITER || true
$FONIO fix undo --dry-run
$FONIO fix undo
tell $HOT | cmp - $DIR/during
fails findmnt $HOT; fails test -e $IMAGES; cmp /etc/fstab $DIR/fstab
fails test -e /run/fonio/settings.json; fails sh -c "losetup -n -O BACK-FILE | grep $DIR.*hot-range"
echo all is back

#= write the size of the range, such as hot-range=16MiB: `fonio bench address-range FOLDER` measures
#= use at least 10MiB
#= free, but the image needs 64MiB, because the folder keeps its space
#= it is already a mount point
#= the system starts from this folder
#= which needs a range of at least
#= programs have files in this folder open for writing
#= users other than root can write to
#= none -> 12MiB
#= ext4   /dev/loop
#= image 24576 of 512, mode 600
#= /card/app ext4 loop,nofail,X-fstrim.notrim
#= the range already has another size
#= which is not mounted on the folder now: run `mount -o loop
#= app.log). First end these programs
#= Copying the changes back takes at most
#= 12MiB -> none
#= all is back
