# Prints the group of each of these processes.
group() { for pid in $*; do sed -n 's/^0:://p' /proc/$pid/cgroup; done; }
# Runs a command with dd, and prints whether dd copied at between half and twice the rate LIMIT by its own clock,
# which does not include the start of fonio.
timed() {
    limit=$1; shift
    "$@" >/dev/null 2>/tmp/said
    sed -n 's/^\([0-9]*\) bytes.* copied, \([0-9.e-]*\) s.*/\1 \2/p' /tmp/said | judge $limit || cat /tmp/said
}
# Judges a line with a number of bytes and a time in seconds.
judge() {
    awk -v limit=$1 '{
        rate = $1 / ($2 + 0.001)
        word = rate < limit / 2 ? "slower than half the limit" : rate > limit * 2 ? "faster than twice the limit" : "holds"
        printf "%s (%.1f s, %.2f MB/s)\n", word, $2, rate / 1e6
    } END { exit NR == 0 }'
}
# Prints the bytes that the disk of the writer has written.
written() { awk '{ print $7 * 512 }' /sys/dev/block/$DEVICE/stat; }
uptime_s() { cut -d' ' -f1 /proc/uptime; }
# Prints whether the writer writes at the rate LIMIT.
writes() {
    from=$(uptime_s); before=$(written)
    sleep 6
    echo "$(written) $before $(uptime_s) $from" | awk '{ print $1 - $2, $3 - $4 }' | judge $1
}
# Lists all that fonio made.
left() {
    find /sys/fs/cgroup /run/systemd /etc/systemd -name '*fonio-io*' -o -name 'fonio-[0-9]*'
    find /run/fonio /var/lib/fonio -type f 2>/dev/null
    systemctl list-units --all --plain --no-legend 'fonio-io*' 2>/dev/null
    echo nothing else
}
DEVICE=$(cat /root/device 2>/dev/null)
WRITER=$(cat /root/writer 2>/dev/null)
