device=$(grep " $FONIO_MOUNT " /proc/mounts | cut -d' ' -f1)
echo "devices = [\"${device#/dev/}\"]" >/tmp/watch.toml
place="--state /tmp/state --run /tmp/run --config /tmp/watch.toml"
fonio watch run $place >&2 &
sleep 3
dd if=/dev/zero of=$FONIO_MOUNT/buffered bs=64k count=64 conv=fsync 2>/dev/null
dd if=/dev/zero of=$FONIO_MOUNT/direct bs=64k count=64 oflag=direct 2>/dev/null
dd if=/dev/zero of=$FONIO_MOUNT/left bs=64k count=64 2>/dev/null
sync
sleep 1
kill $!
wait $!
fonio watch report wear --json $place
