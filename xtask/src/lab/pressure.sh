# Puts a guest with an emulated card under pressure. Usage: sh pressure.sh CASE DRIVER
# Prints lines `NAME VALUE`. A thread that is blocked for four minutes panics the
# guest: the server is stopped for a minute and a half, and a simulated processor can be slow.
case=$1
driver=$2
card=/root/card.toml
mkdir -p /mnt/card
modprobe ublk_drv 2>/dev/null
modprobe loop 2>/dev/null
modprobe fuse 2>/dev/null
sysctl -q -w kernel.hung_task_timeout_secs=240 kernel.hung_task_panic=1

say() { echo "$1 $2"; }

# Milliseconds since the boot.
now() { sed 's/\.\(..\).*/\10/' /proc/uptime; }

# The value of a field of a file in /proc, in KiB.
field() { awk -v name="$2:" '$1 == name { print $2 }' "$1"; }

# Starts the emulator with these options.
start() {
    fonio device emulate $card --through "$driver" --json "$@" >/run/said 2>/run/errors &
    owner=$!
    until test -s /run/said; do
        kill -0 $owner || { cat /run/errors >&2; exit 1; }
        sleep 0.2
    done
    device=$(sed -n 's/.*"device":"\([^"]*\)".*/\1/p' /run/said)
    server=$(sed -n 's/.*"server_pid":\([0-9]*\).*/\1/p' /run/said)
    say locked_mib $(($(field /proc/$server/status VmLck) / 1024))
}

# Ends the emulator, and prints how long this took.
stop() {
    began=$(now)
    kill $owner
    wait $owner
    say stopped_ms $(($(now) - began))
}

# Starts a program that fills this many MiB with data, and then uses all of them again and again.
fill() {
    perl -e '
        my $block = pack("L*", map { int rand 2**32 } 1 .. 262144);
        my @blocks = map { pack("L", $_) . $block } 1 .. $ARGV[0];
        for (my $round = 1; ; $round++) {
            for my $block (@blocks) {
                for (my $at = 0; $at < length $block; $at += 4096) { substr($block, $at, 1) = chr($round & 255) }
            }
            open(my $out, ">", "/run/rounds"); print $out $round; close($out);
        }' "$1" &
    hog=$!
}

# Milliseconds that a command takes at least, of three times.
least() {
    least=
    for round in 1 2 3; do
        began=$(now)
        "$@" >/dev/null 2>&1
        took=$(($(now) - began))
        test -n "$least" && test $took -ge $least || least=$took
    done
    echo $least
}

small_files() {
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        dd if=/dev/zero of=/root/small bs=4k count=1 conv=fsync
    done
}

# Milliseconds that a writer with 64 MiB and one fsync, 20 writers with an fsync each, and fonio take.
other() {
    say "$1_writer_ms" "$(least dd if=/dev/zero of=/root/other bs=1M count=64 conv=fsync)"
    say "$1_fsync_ms" "$(least small_files)"
    say "$1_fonio_ms" "$(least fonio)"
    rm -f /root/other /root/small
}

# Waits for a process that has called sync or fsync, and prints how long it took since `began`.
returned() {
    wait "$2"
    say "$1" $(($(now) - began))
}

case $case in
swap)
    start --size 128MiB
    mkswap "$device" >/dev/null
    swapon "$device"
    # Take all memory, and some of the swap.
    fill $(($(field /proc/meminfo MemAvailable) / 1024 + 60))
    for i in $(seq 300); do
        sleep 1
        test "$(cat /run/rounds 2>/dev/null || echo 0)" -ge 2 && break
        test -d /proc/$hog || break
    done
    say used_swap_mib $((($(field /proc/meminfo SwapTotal) - $(field /proc/meminfo SwapFree)) / 1024))
    say rounds "$(cat /run/rounds 2>/dev/null || echo 0)"
    say server_swap_kib "$(field /proc/$server/status VmSwap)"
    kill $hog
    wait $hog 2>/dev/null
    swapoff "$device"
    stop
    ;;
dirty)
    start --size 384MiB --fs ext4 --mount /mnt/card
    # Memory is short, but not exhausted: the rest must come from write-back to the card.
    fill $(($(field /proc/meminfo MemAvailable) / 1024 - 150))
    dd if=/dev/urandom of=/run/block bs=1M count=8 2>/dev/null
    for i in $(seq 30); do
        cat /run/block
    done >/mnt/card/file
    say written_mib $(($(stat -c %s /mnt/card/file) >> 20))
    say rounds "$(cat /run/rounds 2>/dev/null || echo 0)"
    began=$(now)
    sync
    say sync_ms $(($(now) - began))
    kill $hog
    wait $hog 2>/dev/null
    cat /run/block | cmp -n 8388608 - /mnt/card/file && say data intact
    stop
    ;;
full)
    # The disk of the image has 64 MiB, and the card is larger.
    dd if=/dev/zero of=/root/host bs=1M count=64 2>/dev/null
    mkfs.ext4 -q -F /root/host
    mkdir -p /mnt/host
    mount -o loop /root/host /mnt/host
    start --size 256MiB --image /mnt/host/image --fs ext4 --mount /mnt/card
    began=$(now)
    dd if=/dev/urandom of=/mnt/card/file bs=1M count=200 conv=fsync 2>/dev/null && say fsync succeeded || say fsync failed
    sync
    say returned_ms $(($(now) - began))
    other full
    stop
    grep -q 'No space left' /run/said && say reason reported
    umount /mnt/host
    ;;
stopped | killed)
    # A sparse image on the disk leaves the memory to dirty pages.
    start --size 2GiB --image /root/image --fs ext4 --mount /mnt/card
    : >/mnt/card/file
    : >/mnt/card/synced
    sync
    other before
    # Each commit of the journal would block the writer from then on.
    mount -o remount,commit=600 /mnt/card
    kill -STOP "$server"
    began_stop=$(now)
    wanted=1024
    test "$case" = stopped && wanted=64
    dd if=/dev/zero of=/mnt/card/file bs=1M count=$((wanted + 16)) conv=notrunc 2>/dev/null &
    writer=$!
    for i in $(seq 120); do
        dirty=$((($(field /proc/meminfo Dirty) + $(field /proc/meminfo Writeback)) / 1024))
        test $dirty -ge $wanted && break
        sleep 1
    done
    say dirty_mib $dirty
    test $dirty -ge $wanted && say dirty enough
    (echo text >>/mnt/card/synced && sync /mnt/card/synced) &
    synced=$!
    sync &
    all=$!
    other during
    until test $(($(now) - began_stop)) -ge 60000; do sleep 1; done
    say state "$(sed -n 's/^State:.\(.\).*/\1/p' /proc/$server/status)"
    began=$(now)
    if test "$case" = killed; then kill -KILL "$server"; else kill -CONT "$server"; fi
    returned fsync_returned_ms $synced
    returned sync_returned_ms $all
    returned writer_returned_ms $writer
    stop
    rm -f /root/image
    ;;
esac
say blocked "$(dmesg | grep -c 'blocked for more than')"
mount | grep -c /mnt/card | sed 's/^/mounts_left /'
