tell $LOG >$DIR/before
$FONIO fix apply folder-in-ram=8MiB $LOG --dry-run
tell $LOG | cmp - $DIR/before
$FONIO fix apply folder-in-ram=8MiB $LOG
tell $LOG | cmp - $DIR/before
findmnt -n -o FSTYPE,SOURCE $LOG
echo three >>$LOG/app.log; rm $LOG/sub/deep; mv $LOG/sub $LOG/moved; echo new >$LOG/moved/new
! $FONIO fix apply folder-in-ram=8MiB $LOG
$FONIO fix apply folder-in-ram=16MiB $LOG
$FONIO fix | sed -n '1,/^$/p'
tell $LOG >$DIR/during
$FONIO folder write-out $LOG
$FONIO folder write-out $LOG
$FONIO fix undo --dry-run
$FONIO fix undo
tell $LOG | cmp - $DIR/during
! findmnt $LOG
$FONIO folder write-out $LOG
! test -e /run/fonio/settings.json
echo all is back
