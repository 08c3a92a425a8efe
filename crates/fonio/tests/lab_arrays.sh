run="fonio run webbench --runs 1 --on md-raid0:ridata+transcend@64MiB --size 256MiB"
left() { echo "$1 $2"; ls /sys/block | grep -e ^md -e ^ublk; grep -e /dev/md -e ublk /proc/mounts; ls /run/fonio; }
$run --fault vanish:commands=300 --output a >/dev/null
left vanished $?
sh -c "exec $run --output b" >/dev/null & sleep 6
kill -KILL $!
wait $!
left killed $?
$run --scale 0.02 --output c >/dev/null
left finished $?
