# Waits until nothing of a recording is left, at most `$1` seconds: no files, folders, instances of tracefs, processes. Then
# prints the guest's time in seconds and `none`, or what is left. `$2` is the guest's time at the beginning, if it is known.
# Programs start slowly on a simulated processor, so the shell itself looks for files.
left() {
    for file in /data/misc/perfetto-traces/* /data/local/tmp/* /sys/kernel/tracing/instances/*; do
        [ ! -e $file ] || { what=$file; return; }
    done
    what=$(for pid in $(pgrep '^perfetto$|^fonio' ; pgrep -f '[/]fonio-'); do
        [ ! -e /proc/$pid ] || echo "process $pid: $(cat /proc/$pid/comm)"
    done)
}
now() { read -r now rest </proc/uptime; }
now
until=$((${2:-${now%.*}} + $1 + 1))
while left; now; [ -n "$what" ] && [ ${now%.*} -lt $until ]; do sleep 0.1; done
echo "$now ${what:-none}"
