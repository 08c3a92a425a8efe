# Functions of the steps. A step leaves its exit code and its last lines in the output.

# Loads programs always at the same addresses, so that QEMU can use its translation of their code again.
quick() {
    echo 0 >/proc/sys/kernel/randomize_va_space
}

# Runs fonio, and kills it at its call $1 that writes.
killed() {
    at=$1; shift
    killed_at $at fonio "$@"
}

# Fills the file system of the folder $1, except for $2 blocks.
fill() {
    folder=$1; left=$2
    for hole in $(seq $left); do head -c 4096 /dev/zero >$folder/hole.$hole; done
    sync -f $folder
    # ext4 keeps some blocks for itself, which statfs counts as free.
    kept=$(cat /sys/fs/ext4/$(basename $(findmnt -n -o SOURCE --target $folder))/reserved_clusters)
    # All but the last 8 MiB at once, and these block by block.
    fallocate -l $(($(stat -f -c "(%f - $kept) * %S" $folder) - (8 << 20))) $folder/filling || exit $NOT_FULL
    head -c 64M /dev/zero >>$folder/rest 2>/dev/null
    rm -f $folder/hole.*
    sync -f $folder
    [ $(stat -f -c %f $folder) -le $((left + kept + 16)) ] || { stat -f $folder; exit $NOT_FULL; }
}
NOT_FULL=98

# Runs fonio while the root file system is full, except for $1 blocks.
on_full_disk() {
    left=$1; shift
    fill / $left
    code=0
    fonio "$@" >/dev/shm/said 2>&1 || code=$?
    rm -f /filling /rest
    cat /dev/shm/said
    return $code
}

# Prints the files that settings may change.
files() {
    cat /etc/fstab
    find /etc /var/lib/fonio -type f ! -path /etc/fstab 2>/dev/null | sort | xargs -r sha256sum
    find /etc /var/lib/fonio -type l -printf '%p -> %l\n' 2>/dev/null | sort
}

# Prints the settings that are in force.
in_force() {
    findmnt -n -o OPTIONS /mnt/card
    cat /sys/block/$(basename $(readlink -f /dev/disk/by-id/virtio-disk1))/queue/scheduler
    cat /proc/sys/vm/dirty_bytes /proc/sys/vm/dirty_background_bytes /proc/sys/vm/dirty_ratio
    systemctl show --property=IOWeight backup.service
    echo swappiness $(cat /proc/sys/vm/swappiness)
}

# Takes back what a history that ended well leaves behind: the changes of other programs, and the recordings.
reset() {
    cmp -s /root/fstab /etc/fstab || cat /root/fstab >/etc/fstab
    cat /root/swappiness >/proc/sys/vm/swappiness
    rm -rf /var/lib/histories/* /run/histories /mnt/card/file
}

# Waits until the watch has started, or until the process $1, which runs it, has ended.
started() {
    until watch=$(sed -n 's/.*"pid":\([0-9]*\).*"is_ready":true.*/\1/p' /run/histories/running 2>/dev/null) &&
        [ -n "$watch" ] && kill -0 $watch 2>/dev/null; do
        kill -0 $1 2>/dev/null || return 0
        sleep 0.05
    done
}

# The last recording of a history. The remains of the others can be read or are refused, without a panic.
end_of_recordings() {
    cd /var/lib/histories
    for old in recording*; do
        [ -e $old ] || continue
        code=0
        fonio report $old >/dev/shm/report 2>&1 || code=$?
        ! grep -q 'panicked at' /dev/shm/report || return 101
        [ $code -lt 128 ] || return $code
    done
    # The remains of a killed recording go with the next recording of the same name.
    for name in recording0 $(ls -A | sed -n 's/^\.\(recording1\)\..*/\1/p' | head -n 1); do
        fonio record --for 300ms --overwrite --blocked none -o $name || return
        fonio report $name >/dev/null || return
    done
    rm -r recording*
    [ -z "$(ls -A .)" ] || { echo "files are left:"; ls -A .; return 90; }
    [ -z "$(ls -A /sys/kernel/tracing/instances)" ] || { echo "trace instances are left"; return 91; }
}

# The last run of the watch of a history, and the report about all runs.
end_of_watch() {
    mkdir -p /run/histories
    place='--state /var/lib/histories/watch --run /run/histories'
    fonio watch run $place & pid=$!
    started $pid
    dd if=/dev/zero of=/mnt/card/file bs=64k count=16 conv=fsync 2>/dev/null
    pkill -TERM -x fonio
    wait $pid
    code=$?
    [ $code = 143 ] || { echo "the watch ended with exit code $code"; return 92; }
    fonio watch report $place --json >/dev/null || return
    ! find /var/lib/histories /run/histories -name '*.new' -o -name '*.tmp' | grep .
}
