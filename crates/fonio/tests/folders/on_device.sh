mkdir $CARD/log $CARD/full; touch $CARD/full/file
tell $LOG >$DIR/before
fails $FONIO fix apply folder-on $LOG
fails $FONIO fix apply folder-on=log $LOG
fails $FONIO fix apply folder-on=$CARD/none $LOG
fails $FONIO fix apply folder-on=$CARD/full $LOG
fails $FONIO fix apply folder-on=$DIR $LOG
$FONIO fix apply folder-on=$CARD/log $LOG --dry-run
cmp /etc/fstab $DIR/fstab
$FONIO fix apply folder-on=$CARD/log $LOG
tell $LOG | cmp - $DIR/before
tail -n 1 /etc/fstab
echo three >>$LOG/app.log; rm $LOG/sub/deep; echo new >$LOG/new
tell $LOG >$DIR/during
sleep 1000 3>>$LOG/new & WRITER=$!; sleep 0.3
fails $FONIO fix undo
kill $WRITER; wait $WRITER || true
umount $LOG
fails $FONIO fix undo
mount $LOG
$FONIO fix undo --dry-run
$FONIO fix undo
tell $LOG | cmp - $DIR/during
fails findmnt $LOG
test -z "$(ls -A $CARD/log)"
cmp /etc/fstab $DIR/fstab
fails ls /etc/fstab.*; fails ls /var/lib/fonio
for round in 1 2 3 4 5 6; do
    $FONIO fix apply folder-on=$CARD/log $LOG >/dev/null & APPLY=$!
    sleep 0.0$round; kill -9 $APPLY 2>/dev/null || true; wait $APPLY 2>/dev/null || true
    tell $LOG | cmp - $DIR/during
    $FONIO fix undo >/dev/null & UNDO=$!
    sleep 0.0$round; kill -9 $UNDO 2>/dev/null || true; wait $UNDO 2>/dev/null || true
    $FONIO fix undo || true
    tell $LOG | cmp - $DIR/during
    fails findmnt $LOG
    test -z "$(ls -A $CARD/log)"
    cmp /etc/fstab $DIR/fstab
done
echo all is back

#= name the folder on the other device, such as folder-on=/mnt/ssd/log
#= write the absolute path of a folder
#= create it first: mkdir -p /run/card/none
#= /run/card/full is not empty
#= none -> bound
#= /etc/fstab:\n  /run/card/log
#= none bind,nofail,x-systemd.requires-mounts-for=/run/card/log
#= /new). First end these programs
#= which is not mounted on the folder now: run `mount --bind /run/card/log
#= Copying the changes back takes at most
#= all is back
