# Functions of the steps. A step leaves its exit code and its last lines in the output.
WRITES=write,pwrite64,writev,rename,renameat,renameat2,unlink,unlinkat,fsync,fdatasync,ftruncate,mkdir,mkdirat,link,linkat,fchown,fchmod,mount,umount2

# Runs fonio, and kills it at its call $1 that writes.
killed() {
    at=$1; shift
    strace -o /dev/null -e trace=$WRITES -e inject=$WRITES:signal=KILL:when=$at fonio "$@"
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
