# Functions of the steps. A step leaves its exit code and its last lines in the output.
WRITES=write,pwrite64,writev,rename,renameat,renameat2,unlink,unlinkat,fsync,fdatasync,ftruncate,mkdir,mkdirat,link,linkat,fchown,fchmod,mount,umount2

# Runs fonio, and kills it at its call $1 that writes. The files of recordings and of the watch are written by
# any thread, and each thread counts its own calls. The commands that `fonio fix` runs are not killed.
# (`strace --seccomp-bpf` would be faster, but it does not send the signal.)
killed() {
    at=$1; shift
    case $1 in fix) threads= ;; *) threads=-f ;; esac
    strace $threads -o /dev/null -e trace=$WRITES -e inject=$WRITES:signal=KILL:when=$at fonio "$@"
}

# Fills the file system of the folder $1, except for $2 blocks.
fill() {
    folder=$1; left=$2
    for hole in $(seq $left); do head -c 4096 /dev/zero >$folder/hole.$hole; done
    sync -f $folder
    size=$(stat -f -c %S $folder)
    count=$(stat -f -c %f $folder)
    while [ $count -gt 0 ] && ! fallocate -l $((count * size)) $folder/filling.$count 2>/dev/null; do
        count=$((count * 15 / 16))
    done
    # The rest, block by block.
    head -c 64M /dev/zero >>$folder/rest 2>/dev/null
    rm -f $folder/hole.*
    sync -f $folder
}

# Runs fonio while the root file system is full, except for $1 blocks.
on_full_disk() {
    left=$1; shift
    fill / $left
    code=0
    fonio "$@" >/dev/shm/said 2>&1 || code=$?
    rm -f /filling.* /rest
    cat /dev/shm/said
    return $code
}

# Prints the files that settings may change.
files() {
    cat /etc/fstab
    find /etc /var/lib/fonio -type f ! -path /etc/fstab 2>/dev/null | sort | xargs -r sha256sum
    find /etc /var/lib/fonio -type l 2>/dev/null | sort | while read link; do echo "$link -> $(readlink $link)"; done
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
        sleep 0.2
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
    fonio record --for 1s --overwrite -o recording0 || return
    fonio report recording0 >/dev/null || return
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
