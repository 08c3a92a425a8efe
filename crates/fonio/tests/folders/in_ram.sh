tell $LOG >$DIR/before
$FONIO fix apply folder-in-ram=8MiB $LOG --dry-run
tell $LOG | cmp - $DIR/before
$FONIO fix apply folder-in-ram=8MiB $LOG
tell $LOG | cmp - $DIR/before
findmnt -n -o FSTYPE,SOURCE $LOG
echo three >>$LOG/app.log; rm $LOG/sub/deep; mv $LOG/sub $LOG/moved; echo new >$LOG/moved/new
fails $FONIO fix apply folder-in-ram=8MiB $LOG
$FONIO fix apply folder-in-ram=16MiB $LOG
$FONIO fix | sed -n '1,/^$/p'
tell $LOG >$DIR/during
$FONIO folder write-out $LOG
$FONIO folder write-out $LOG
$FONIO fix undo --dry-run
$FONIO fix undo
tell $LOG | cmp - $DIR/during
fails findmnt $LOG
$FONIO folder write-out $LOG
fails test -e /run/fonio/settings.json
echo all is back

#= none -> 8MiB
#= fonio-folder-in-ram\n
#= this value is already in force
#= 8MiB -> 16MiB
#= (before: none)
#= , 2 removed
#=  0 files and folders changed
#= 16MiB -> none
#= is not in memory: nothing to write out
#= systemd does not run here, so nothing writes the folder out
#= all is back
