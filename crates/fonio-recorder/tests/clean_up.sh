# Makes a tracefs instance of this shell and one of a process that becomes the recorder, and prints which instances are left.
# Runs in a mount namespace of its own. Usage: sh clean_up.sh RECORDER
tracing=/sys/kernel/tracing
mountpoint -q $tracing || mount -t tracefs nodev $tracing
cd $tracing/instances || exit 3
# The start time of a process is the 22nd word of its status. Other recorders leave the instance of this shell alone, because
# this shell lives.
recorder=$1
set -- $(cat /proc/$$/stat)
kept=fonio-$$-${22}-77777
mkdir "$kept"
echo "kept $kept"
sh -c 'recorder=$1; set -- $(cat /proc/$$/stat); mkdir fonio-$$-${22}-77777; echo "removed fonio-$$-${22}-77777"
       exec "$recorder" --clean-up' sh "$recorder" 2>&1
for left in fonio-*-77777; do
    if rmdir "$left"; then echo "left $left"; fi
done
