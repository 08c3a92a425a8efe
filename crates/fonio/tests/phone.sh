# Stands for a phone: Debian's adbd and perfetto, in namespaces of their own. Then records it with fonio.
# Usage: unshare -m -n -p -f --mount-proc --kill-child sh phone.sh ROOT RUN INSTANCE FONIO
set -eu
root=$1 run=$2 instance=$3 fonio=$4
libraries=$root/usr/lib/x86_64-linux-gnu
libraries=$libraries:$libraries/android:$root/usr/lib/perfetto
begin="$root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 --library-path $libraries"
traces=/data/misc/perfetto-traces

if [ "${5-}" != inside ]; then
    # A root with a folder /data, so that nothing is left on this machine.
    mkdir "$run/new"
    mount -t tmpfs phone "$run/new"
    mkdir -p "$run/new/data/misc/perfetto-traces"
    for entry in /*; do
        if [ -L "$entry" ]; then
            cp -P "$entry" "$run/new/"
        elif [ -d "$entry" ] && [ "$entry" != /data ]; then
            mkdir "$run/new$entry"
            mount --rbind "$entry" "$run/new$entry"
        fi
    done
    exec chroot "$run/new" sh "$0" "$root" "$run" "$instance" "$fonio" inside
fi
ip link set lo up
mkdir "$run/bin" "$run/home"
tracing=/sys/kernel/tracing
mountpoint -q $tracing || mount -t tracefs nodev $tracing
mkdir "$tracing/instances/$instance"
# An instance is removed only when nobody has its files open.
end() {
    pkill -9 -f "$root/usr" || true
    while pgrep -f "$root/usr" > /dev/null; do sleep 0.1; done
    umount $tracing || true
    rmdir "$tracing/instances/$instance"
}
trap end EXIT
# Perfetto sees an instance as the whole of tracefs.
mount --bind "$tracing/instances/$instance" $tracing

cat > "$run/bin/getprop" <<'PROPERTIES'
#!/bin/sh
case $1 in
ro.build.version.sdk) echo 34 ;;
ro.build.version.release) echo 14 ;;
ro.product.model) echo "Stand-in" ;;
ro.build.type) echo user ;;
perf.drop_caches) echo 0 ;;
esac
PROPERTIES
# Android's programs, with the texts of AOSP. The markers are those of its system server.
cat > "$run/bin/am" <<'ACTIVITIES'
#!/bin/sh
[ "$1" = start ] || exit 0
for word; do component=$word; done
case $component in
com.example/.Main) ;;
*) printf 'Starting: Intent { cmp=%s }\nError type 3\nError: Activity class {%s} does not exist.\n' $component $component; exit 0 ;;
esac
marker=/sys/kernel/tracing/trace_marker
echo "S|1|launchingActivity#$$|0" > $marker
sleep 0.3
echo "F|1|launchingActivity#$$|0" > $marker
echo "I|1|launchingActivity#$$:completed-cold:com.example" > $marker
printf 'Starting: Intent { cmp=com.example/.Main }\nStatus: ok\nLaunchState: COLD\nActivity: com.example/.Main\n'
printf 'TotalTime: 312\nWaitTime: 315\nComplete\n'
ACTIVITIES
printf '#!/bin/sh\necho 2000\n' > "$run/bin/id"
ln -s /bin/true "$run/bin/input"
ln -s /bin/true "$run/bin/setprop"
printf '#!/bin/sh\nexec %s %s "$@"\n' "$begin" "$root/usr/bin/perfetto" > "$run/bin/perfetto"
chmod +x "$run/bin/getprop" "$run/bin/perfetto" "$run/bin/am" "$run/bin/id"
export PATH="$run/bin:$PATH" HOME="$run/home" ANDROID_ADB_SERVER_PORT=15037 ADBD_PORT=25555
export PERFETTO_PRODUCER_SOCK_NAME="$run/producer" PERFETTO_CONSUMER_SOCK_NAME="$run/consumer"
$begin "$root/usr/sbin/traced" > "$run/traced.log" 2>&1 &
until [ -e "$PERFETTO_PRODUCER_SOCK_NAME" ]; do sleep 0.1; done
$begin "$root/usr/sbin/traced_probes" > "$run/probes.log" 2>&1 &
$begin "$root/usr/lib/android-sdk/platform-tools/adbd" > "$run/adbd.log" 2>&1 &
tries=0
until adb connect 127.0.0.1:25555 | grep -q '^connected'; do
    tries=$((tries + 1)); [ $tries -lt 50 ] || exit 3; sleep 0.2
done

left() {
    for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        [ -n "$(ls $traces)" ] || ! pgrep -f "perfetto -c" > /dev/null || { sleep 1; continue; }
        [ -z "$(ls $traces)" ] && break
        sleep 1
    done
    echo "left: $(ls $traces) $(pgrep -f 'perfetto -c' | tr '\n' ' ')"
}
# Waits until the phone records.
recording() { until [ -n "$(ls $traces)" ]; do sleep 0.1; done; sleep 2; }

echo ready
"$fonio" record --in android --for 10s -o "$run/phone"
left
"$fonio" launch --in android --runs 2 --json -o "$run/launches" -- com.example/.Main > "$run/launches.json"
left
"$fonio" launch --in android -o "$run/none" -- com.example/.Other 2>&1 | grep "^fonio:"
left
"$fonio" record --in android -o "$run/stopped" > "$run/stopped.log" 2>&1 & pid=$!
recording; kill -INT $pid; wait $pid || echo "stopped: $?"
left
"$fonio" record --in android -o "$run/killed" > /dev/null 2>&1 & pid=$!
recording; kill -9 $pid; wait $pid || echo "killed: $?"
left
"$fonio" record --in android -o "$run/lost" 2> "$run/lost.log" & pid=$!
recording; pkill -9 -f platform-tools/adbd; wait $pid || echo "lost: $?"
tail -1 "$run/lost.log"
left
