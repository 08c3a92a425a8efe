# Runs one load of fio while Perfetto, trace-cmd, perf and fonio record it, and biosnoop if this kernel has what it needs.
#
# The caller sets: ROOT, a folder with Debian's programs; WORK, an empty folder; DEVICE; FONIO; DEPTH and REQUESTS of fio.
# It runs in a mount namespace of its own, so all mounts end with it.
set -eu
tracing=/sys/kernel/tracing
mountpoint -q $tracing || mount -t tracefs nodev $tracing
for_perfetto=fonio-study-perfetto-$$
for_trace_cmd=fonio-study-trace-cmd-$$
pids=

# Runs a program of ROOT with the libraries of ROOT.
there() {
    program=$1
    shift
    for folder in usr/bin usr/sbin; do
        if [ -e "$ROOT/$folder/$program" ]; then
            exec "$ROOT/usr/lib64/ld-linux-x86-64.so.2" --inhibit-cache \
                --library-path "$ROOT/usr/lib/x86_64-linux-gnu:$ROOT/usr/lib/perfetto" \
                --argv0 "$program" "$ROOT/$folder/$program" "$@"
        fi
    done
    echo "$program is missing" >&2
    exit 127
}

clean_up() {
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    for pid in $pids; do wait "$pid" 2>/dev/null || true; done
    for instance in $for_perfetto $for_trace_cmd; do
        for file in $hidden; do umount "$tracing/instances/$instance/$file" 2>/dev/null || true; done
        rmdir "$tracing/instances/$instance" 2>/dev/null || true
    done
}
hidden="set_ftrace_filter set_ftrace_notrace set_ftrace_pid"
trap clean_up EXIT
trap 'exit 1' INT TERM

# trace-cmd ends if it cannot write these files, which a locked-down kernel refuses. It does not need them for events.
: > "$WORK/empty"
echo '0000000000000000 T _text' > "$WORK/kallsyms"
mkdir "$tracing/instances/$for_perfetto" "$tracing/instances/$for_trace_cmd"
for file in $hidden; do
    for folder in $tracing "$tracing/instances/$for_trace_cmd"; do
        if [ -e "$folder/$file" ]; then mount --bind "$WORK/empty" "$folder/$file"; fi
    done
done
if [ -e /proc/sys/kernel/ftrace_enabled ]; then mount --bind "$WORK/empty" /proc/sys/kernel/ftrace_enabled; fi
mount --bind "$WORK/kallsyms" /proc/kallsyms

cat > "$WORK/perfetto.cfg" <<END
buffers { size_kb: 65536 fill_policy: DISCARD }
data_sources { config { name: "linux.ftrace" ftrace_config {
    instance_name: "$for_perfetto"
    buffer_size_kb: 16384
    drain_period_ms: 250
    ftrace_events: "block/block_rq_issue"
    ftrace_events: "block/block_rq_complete"
    ftrace_events: "block/block_rq_insert"
} } }
data_sources { config { name: "linux.process_stats" } }
END
export PERFETTO_PRODUCER_SOCK_NAME="$WORK/producer" PERFETTO_CONSUMER_SOCK_NAME="$WORK/consumer"
there traced > "$WORK/traced.log" 2>&1 &
pids="$pids $!"
sleep 1
there traced_probes > "$WORK/traced_probes.log" 2>&1 &
pids="$pids $!"
sleep 1
there perfetto --txt -c "$WORK/perfetto.cfg" -o "$WORK/perfetto.trace" > "$WORK/perfetto.log" 2>&1 &
perfetto=$!
pids="$pids $perfetto"

# Each of the others ends when the file `done` is there.
until_done="while [ ! -e '$WORK/done' ]; do sleep 0.1; done; sleep 1"
cd "$WORK"
there trace-cmd record -B "$for_trace_cmd" -C mono -b 8192 -e block:block_rq_issue -e block:block_rq_complete \
    -e block:block_rq_insert -o "$WORK/trace.dat" sh -c "$until_done" > "$WORK/trace-cmd.log" 2>&1 &
trace_cmd=$!
perf record -q -a -m 8M -k CLOCK_MONOTONIC -e block:block_rq_issue,block:block_rq_complete,block:block_rq_insert \
    -o "$WORK/perf.data" sh -c "$until_done" > "$WORK/perf.log" 2>&1 &
perf=$!
there biosnoop-libbpf > "$WORK/biosnoop.txt" 2> "$WORK/biosnoop.log" &
biosnoop=$!
pids="$pids $biosnoop"
sleep 3

"$FONIO" record --device "${DEVICE#/dev/}" -o "$WORK/fonio" -- fio --name=load --filename="$DEVICE" --rw=randrw --bs=4k --size=64m --direct=1 \
    --ioengine=libaio --iodepth="$DEPTH" --number_ios="$REQUESTS" --randseed=1 --output-format=json \
    --output="$WORK/fio.json" > "$WORK/fonio.log" 2>&1 || { cat "$WORK/fonio.log" >&2; exit 1; }

touch "$WORK/done"
wait $trace_cmd || { cat "$WORK/trace-cmd.log" >&2; exit 1; }
wait $perf || { cat "$WORK/perf.log" >&2; exit 1; }
kill -INT $perfetto 2>/dev/null || { cat "$WORK"/traced*.log "$WORK/perfetto.log" >&2; exit 1; }
wait $perfetto || true
kill -INT $biosnoop 2>/dev/null || true
wait $biosnoop 2>/dev/null || true
# It says on standard error how many events were lost.
grep '^lost ' "$WORK/biosnoop.log" >> "$WORK/biosnoop.txt" || true
