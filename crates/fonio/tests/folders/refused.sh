refused() { ! $FONIO fix "$@"; }
refused apply folder-in-ram /etc
refused apply folder-in-ram /var
refused apply folder-in-ram
refused apply folder-in-ram=100 $LOG
refused apply folder-in-ram $LOG --keep
fails findmnt $LOG
head -c 3M /dev/urandom >$LOG/large
refused apply folder-in-ram=2MiB $LOG
refused apply folder-in-ram=64GiB $LOG
ln $LOG/large $DIR/outside
refused apply folder-in-ram $LOG
rm $DIR/outside $LOG/large
mkdir $LOG/mnt; mount -t tmpfs none $LOG/mnt
refused apply folder-in-ram $LOG
refused apply folder-in-ram $LOG/mnt
umount $LOG/mnt
fails test -e /run/fonio/settings.json

#= on /etc: the system starts from this folder
#= is in this folder: name a folder below it
#= such as `fonio fix apply folder-in-ram /var/log`
#= write a multiple of 1MiB
#= a systemd unit is needed, but systemd does not run here
#= which is more than 2MiB
#= of memory, but only
#= a hard link outside the folder
#= /mnt is mounted in this folder
#= it is already a mount point
