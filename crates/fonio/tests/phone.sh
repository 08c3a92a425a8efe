# Stands for a phone: Debian's adbd and perfetto, in namespaces of their own. Then records it with fonio.
# Usage: unshare -m -n -p -f --mount-proc --kill-child sh phone.sh ROOT RUN INSTANCE FONIO MODE RECORDER
# MODE is `user` for a phone without root, and `rooted` for a phone with su and without perfetto.
set -eu
root=$1 run=$2 instance=$3 fonio=$4 mode=$5 recorder=$6
libraries=$root/usr/lib/x86_64-linux-gnu
libraries=$libraries:$libraries/android:$root/usr/lib/perfetto
begin="$root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 --library-path $libraries"
traces=/data/misc/perfetto-traces

programs=/data/local/tmp

if [ "${7-}" != inside ]; then
    # A root with a folder /data, so that nothing is left on this machine.
    mkdir "$run/new"
    mount -t tmpfs phone "$run/new"
    mkdir -p "$run/new/data/misc/perfetto-traces" "$run/new/data/local/tmp"
    for entry in /*; do
        if [ -L "$entry" ]; then
            cp -P "$entry" "$run/new/"
        elif [ -d "$entry" ] && [ "$entry" != /data ]; then
            mkdir "$run/new$entry"
            mount --rbind "$entry" "$run/new$entry"
        fi
    done
    exec chroot "$run/new" sh "$0" "$root" "$run" "$instance" "$fonio" "$mode" "$recorder" inside
fi
ip link set lo up
mkdir "$run/bin" "$run/home"
tracing=/sys/kernel/tracing
mountpoint -q $tracing || mount -t tracefs nodev $tracing
# An instance is removed only when nobody has its files open.
end() {
    pkill -9 -f "$root/usr" || true
    while pgrep -f "$root/usr" > /dev/null; do sleep 0.1; done
    [ $mode = user ] || return 0
    umount $tracing || true
    rmdir "$tracing/instances/$instance"
}
if [ $mode = user ]; then
    mkdir "$tracing/instances/$instance"
    trap end EXIT
    # Perfetto sees an instance as the whole of tracefs.
    mount --bind "$tracing/instances/$instance" $tracing
else
    trap end EXIT
fi

cat > "$run/bin/getprop" <<'PROPERTIES'
#!/bin/sh
case $1 in
ro.build.version.sdk) echo 34 ;;
ro.build.version.release) echo 14 ;;
ro.product.model) echo "Stand-in" ;;
ro.build.type) echo user ;;
ro.product.cpu.abi) echo x86_64 ;;
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
cat > "$run/bin/monkey" <<'MONKEY'
#!/bin/sh
[ "$1 $2 $3" = "-p com.example -s" ] || { echo "** Error: $*"; exit 1; }
for word; do events=$word; done
echo "Events injected: $events"
MONKEY
cat > "$run/bin/uiautomator" <<'SCREEN'
#!/bin/sh
{
    printf '<?xml version="1.0" encoding="UTF-8" standalone="yes" ?><hierarchy rotation="0">'
    for n in 1 2 3 4 5 6 7 8; do
        printf '<node text="" resource-id="com.example:id/b%s" package="com.example" clickable="true" enabled="true" bounds="[0,%s00][100,%s50]" />' $n $n $n
    done
    printf '</hierarchy>'
} > "$2"
echo "UI hierchary dumped to: $2"
SCREEN
cat > "$run/script.toml" <<'SCRIPT'
name = "buttons"
app = "com.example"
idle = { below = 1.0, seconds = 0.5, limit = 10.0 }
prepare = [ { do = "force_stop" } ]
steps = [
  { do = "launch", activity = "com.example/.Main" },
  { do = "repeat", times = 3, steps = [ { do = "tap_any" }, { do = "monkey", events = 5 } ] },
  { do = "until_idle" },
  { do = "key", key = "HOME" },
]
SCRIPT
ln -s /bin/true "$run/bin/input"
ln -s /bin/true "$run/bin/setprop"
cat > "$run/bin/su" <<'SU'
#!/bin/sh
# The program of Android's userdebug builds: `su USER COMMAND …`.
[ -e "$(dirname "$0")/rooted" ] || { echo "su: permission denied" >&2; exit 1; }
[ "$1" = 0 ] || { echo "su: invalid uid/gid '$1'" >&2; exit 1; }
shift
PATH="$(dirname "$0")/as-root:$PATH" exec "$@"
SU
mkdir "$run/bin/as-root"
ln -s /usr/bin/id "$run/bin/as-root/id"
if [ $mode = user ]; then
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$begin" "$root/usr/bin/perfetto" > "$run/bin/perfetto"
    chmod +x "$run/bin/perfetto"
else
    : > "$run/bin/rooted"
fi
chmod +x "$run/bin/getprop" "$run/bin/am" "$run/bin/id" "$run/bin/su" "$run/bin/monkey" "$run/bin/uiautomator"
export PATH="$run/bin:$PATH" HOME="$run/home" ANDROID_ADB_SERVER_PORT=15037 ADBD_PORT=25555
export PERFETTO_PRODUCER_SOCK_NAME="$run/producer" PERFETTO_CONSUMER_SOCK_NAME="$run/consumer"
if [ $mode = user ]; then
    $begin "$root/usr/sbin/traced" > "$run/traced.log" 2>&1 &
    until [ -e "$PERFETTO_PRODUCER_SOCK_NAME" ]; do sleep 0.1; done
    $begin "$root/usr/sbin/traced_probes" > "$run/probes.log" 2>&1 &
fi
connect() {
    $begin "$root/usr/lib/android-sdk/platform-tools/adbd" > "$run/adbd.log" 2>&1 &
    tries=0
    # The server may believe for a moment that the old connection still exists.
    until adb connect 127.0.0.1:25555 > /dev/null && adb -s 127.0.0.1:25555 shell true; do
        tries=$((tries + 1)); [ $tries -lt 100 ] || exit 3; sleep 0.2
    done 2> /dev/null
}
connect

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

if [ $mode = rooted ]; then
    # The folder, the processes and the instances of the recorder.
    left() {
        for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
            what="$(ls $programs) $(pgrep -f '^/data/local/tmp/fonio-phone-' | tr '\n' ' ')"
            for name in ${instances-}; do [ ! -e "$tracing/$name" ] || what="$what $name"; done
            [ "$what" != " " ] || break
            sleep 1
        done
        echo "left: $what"
    }
    recording() {
        until pid_there=$(pgrep -f '^/data/local/tmp/fonio-phone-[0-9]*/fonio-recorder'); do sleep 0.1; done
        sleep 3
        instances=$(ls -l /proc/$pid_there/fd | grep -o 'instances/[^/]*' | sort -u)
        echo "instances: $(echo "$instances" | wc -w), files: $(ls $programs/fonio-phone-* | tr '\n' ' ')"
    }
    echo ready
    "$fonio" record --in android --recorder "$recorder" --for 20s -o "$run/phone" 2> "$run/phone.log" & pid=$!
    recording; echo recording; wait $pid
    left
    "$fonio" record --in android --recorder "$recorder" -o "$run/stopped" > "$run/stopped.log" 2>&1 & pid=$!
    recording; kill -INT $pid; wait $pid || echo "stopped: $?"
    left
    "$fonio" record --in android --recorder "$recorder" -o "$run/killed" > /dev/null 2>&1 & pid=$!
    recording; kill -9 $pid; wait $pid || echo "killed: $?"
    left
    # A host that says nothing more, with a connection that stays.
    "$fonio" record --in android --recorder "$recorder" -o "$run/silent" > /dev/null 2>&1 & pid=$!
    recording; kill -STOP $pid; left; kill -9 $pid; wait $pid || echo "silent: $?"
    "$fonio" record --in android --recorder "$recorder" -o "$run/lost" 2> "$run/lost.log" & pid=$!
    recording; pkill -9 -f platform-tools/adbd; wait $pid || echo "lost: $?"
    grep "^fonio:" "$run/lost.log"
    left
    connect
    "$fonio" record --in android --recorder "$run/none" --for 5s -o "$run/counters" 2>&1 | grep -v "^Next"
    # A phone without root and without perfetto.
    cat > "$run/bin/atrace" <<'ATRACE'
#!/bin/sh
# The program of AOSP, with the events of disk and sched in an instance of its own.
here=/sys/kernel/tracing/instances/INSTANCE
case "$*" in
--list_categories) printf '%12s - %s\n' gfx Graphics sched 'CPU Scheduling' disk 'Disk I/O' ;;
"--async_start -b 16384 disk sched gfx")
    mkdir $here
    for event in block/block_rq_issue block/block_rq_complete sched/sched_switch; do
        echo 1 > $here/events/$event/enable
    done ;;
*--async_stop)
    echo 0 > $here/tracing_on
    if [ "$1" = -z ]; then
        echo TRACE:
        python3 -c 'import sys, zlib; sys.stdout.buffer.write(zlib.compress(open(sys.argv[1], "rb").read()))' $here/trace
    fi
    rmdir $here ;;
*) echo "unknown option: $*" >&2; exit 1 ;;
esac
ATRACE
    sed -i "s/INSTANCE/$instance/" "$run/bin/atrace"
    chmod +x "$run/bin/atrace"
    rm "$run/bin/rooted"
    ( sleep 4; dd if=/dev/zero of="$run/written" bs=64k count=50 oflag=direct ) 2> /dev/null &
    "$fonio" record --in android --for 6s -o "$run/atrace" 2>&1 | grep -v "^Next"
    "$fonio" record --in android -o "$run/killed-atrace" > /dev/null 2>&1 & pid=$!
    tries=0
    until [ -d "$tracing/instances/$instance" ]; do
        tries=$((tries + 1)); [ $tries -lt 600 ] || exit 4; sleep 0.1
    done
    sleep 1; kill -9 $pid; wait $pid || echo "killed: $?"
    instances=instances/$instance
    left
    : > "$run/bin/rooted"
    "$fonio" record --in android --recorder /bin/false --for 5s -o "$run/other" 2>&1 | grep recorder:
    left
    exit 0
fi
echo ready
"$fonio" watch run --in android --state "$run/watch" --run "$run/watch-run" 2> "$run/watch.log" & watch=$!
"$fonio" record --in android --for 20s -o "$run/phone" & pid=$!
recording; echo recording; wait $pid
left
"$fonio" run "$run/script.toml" --in android --seed 7 --runs 2 --json -o "$run/scripted" > "$run/scripted.json"
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
# The watch waits for the phone.
for second in $(seq 90); do
    grep -q "does not answer" "$run/watch.log" && break
    sleep 1
done
connect
for second in $(seq 30); do
    grep -q "answers again" "$run/watch.log" && break
    sleep 1
done
dd if=/dev/zero of="$run/written" bs=64k count=100 oflag=direct 2> /dev/null
sleep 3
kill -TERM $watch; wait $watch || echo "watch: $?"
cat "$run/watch.log"
"$fonio" watch status --in android --state "$run/watch" --run "$run/watch-run"
"$fonio" watch status --in android --state "$run/watch" --run "$run/watch-run" --json > "$run/watch.json"
# The report knows the disks and the apps, and no stalls.
"$fonio" watch report --in android --state "$run/watch" --run "$run/watch-run" --since 1h --html "$run/watch.html"
"$fonio" watch report --in android --state "$run/watch" --run "$run/watch-run" --since 1h > "$run/watch.txt"
"$fonio" watch report stalls --in android --state "$run/watch" --run "$run/watch-run" 2>&1 || echo "refused: $?"
