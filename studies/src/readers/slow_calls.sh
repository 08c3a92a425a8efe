# Runs fio on a new ext4 while ext4slower and fonio record its calls.
#
# The caller sets: WORK, an empty folder; DEVICE; FONIO; CALLS, the number of calls of fio.
set -eu
mkfs.ext4 -q "$DEVICE"
mkdir "$WORK/files"
mount "$DEVICE" "$WORK/files"
slower=
clean_up() {
    if [ -n "$slower" ]; then
        kill "$slower" 2>/dev/null || true
        wait "$slower" 2>/dev/null || true
    fi
    umount "$WORK/files"
}
trap clean_up EXIT
trap 'exit 1' INT TERM
# Debian's newer release adds the name of the package.
for program in ext4slower-libbpf ext4slower; do
    command -v $program >/dev/null && break
done
$program --csv --min 0 > "$WORK/slow.csv" 2> "$WORK/ext4slower.log" &
slower=$!
sleep 5
kill -0 $slower || { cat "$WORK/ext4slower.log" >&2; exit 1; }
"$FONIO" record --calls -o "$WORK/calls" -- fio --name=load --filename="$WORK/files/load" --rw=randwrite --bs=4k --size=4m --fsync=2 \
    --ioengine=psync --number_ios="$CALLS" --randseed=1 --output="$WORK/fio.txt" > "$WORK/fonio.log" 2>&1 ||
    { cat "$WORK/fonio.log" >&2; exit 1; }
sleep 2
kill -INT $slower
wait $slower || true
slower=
