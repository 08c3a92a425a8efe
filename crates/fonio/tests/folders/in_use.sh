sleep 1000 3>>$LOG/app.log & WRITER=$!; sleep 0.3
fails $FONIO fix apply folder-in-ram=8MiB $LOG
fails findmnt $LOG
$FONIO fix apply folder-in-ram=8MiB $LOG --force
kill $WRITER; wait $WRITER || true
sleep 1000 3>>$LOG/new.log & WRITER=$!; sleep 0.3
echo kept >>$LOG/new.log
fails $FONIO fix undo
findmnt -n -o OPTIONS $LOG
echo writable >>$LOG/new.log
kill $WRITER; wait $WRITER || true
(cd $LOG; exec sleep 1000) & READER=$!; sleep 0.3
fails $FONIO fix undo
kill $READER; wait $READER || true
$FONIO fix undo
cat $LOG/new.log

#= programs have files in this folder open for writing
#= app.log). Stop these programs first (end these programs)
#= These programs still use the old files
#= new.log). First end these programs
#= log). First end these programs
#= 8MiB -> none
#= kept\nwritable\n
