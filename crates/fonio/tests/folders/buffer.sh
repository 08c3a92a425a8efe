tell $LOG | grep -v trusted >$DIR/before
$FONIO fix apply bfuse $LOG --dry-run
$FONIO fix apply bfuse $LOG
findmnt -n -o FSTYPE $LOG
echo three >>$LOG/app.log; rm $LOG/sub/deep; echo new >$LOG/new
sleep 1000 3>>$LOG/new & WRITER=$!; sleep 0.3
fails $FONIO fix undo
kill $WRITER; wait $WRITER || true
fails $FONIO fix apply bfuse $LOG
fails $FONIO fix apply bfuse $LOG --keep
$FONIO fix undo bfuse
fails findmnt $LOG
cat $LOG/app.log $LOG/new
rm $LOG/new
fails test -e /run/fonio/settings.json
echo all is back

#= none -> mounted
#= fuse.fonio
#= /new). First end these programs
#= this value is already in force
#= mounted -> none
#= one\nthree\nnew\n
#= all is back
