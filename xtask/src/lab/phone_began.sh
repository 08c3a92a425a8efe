# Waits until perfetto has written to its file for the first time.
for try in $(seq 600); do
    for trace in /data/misc/perfetto-traces/fonio-*; do
        [ ! -s "$trace" ] || exit 0
    done
    sleep 0.2
done
exit 1
