# Functions for the root directories of real programs. They run in mount namespaces of their own.

# Makes device files in a file system in memory at $1. Scripts of packages may change them, so they are not the machine's.
make_devices() {
    mount -t tmpfs -o mode=0755 dev "$1"
    while read -r name major minor; do
        mknod -m 666 "$1/$name" c "$major" "$minor"
    done <<DEVICES
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
DEVICES
    ln -s /proc/self/fd "$1/fd"
    mkdir "$1/shm"
}

# Mounts a root directory above the one at $1, which stays unchanged: changes go to memory, in the folder $2. It has devices and
# processes of its own, and the folder $2 at /mnt. Sets `target` to its path.
make_root() {
    # Mounts made here stay here; what is unmounted outside is unmounted here too, so that no device stays in use.
    mount --make-rslave /
    mkdir -p "$2/scratch"
    mount -t tmpfs -o mode=755 scratch "$2/scratch"
    target=$2/scratch/root
    mkdir "$2/scratch/upper" "$2/scratch/work" "$target"
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/scratch/upper,workdir=$2/scratch/work" "$target"
    mount -t proc proc "$target/proc"
    make_devices "$target/dev"
    mount --bind "$2" "$target/mnt"
}

# Copies these files into `target`, if this machine has them.
take_files() {
    for file in "$@"; do
        if test -e "$file"; then
            mkdir -p "$target${file%/*}"
            rm -f "$target$file"
            cp -L "$file" "$target$file"
        fi
    done
}
