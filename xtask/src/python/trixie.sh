# Tests the wheel in a Debian of its own, without a network. All mounts are in the namespace of this script, and end with it.
# Usage: sh -c SCRIPT sh ROOT SCRATCH REPOSITORY WHEELS WHEEL PROGRAM REQUIREMENTS
# ROOT stays unchanged: changes go to memory. The other paths are the same inside.
set -eu
root=$1 scratch=$2 repository=$3 wheels=$4 wheel=$5 program=$6 requirements=$7

mount --make-rprivate /
mount -t tmpfs -o mode=755 scratch "$scratch"
new=$scratch/root
mkdir "$scratch/upper" "$scratch/work" "$new"
mount -t overlay overlay -o "lowerdir=$root,upperdir=$scratch/upper,workdir=$scratch/work" "$new"
mount -t proc proc "$new/proc"
mount --rbind /dev "$new/dev"
mount -t tmpfs -o mode=1777 tmp "$new/tmp"
# A folder that contains another one comes first.
for shared in "$repository" "$wheels" "${wheel%/*}" "${program%/*}"; do
    if ! test -e "$new$shared/"; then
        mkdir -p "$new$shared"
    fi
    mount --bind "$shared" "$new$shared"
    mount -o remount,bind,ro "$new$shared"
done

exec chroot "$new" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp TMPDIR=/tmp LC_ALL=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 "FONIO=$program" sh -euc '
    . /etc/os-release
    echo "$PRETTY_NAME, $(python3 --version)"
    python3 -m venv /tmp/venv
    install="/tmp/venv/bin/python3 -m pip install --quiet --no-index --no-cache-dir --disable-pip-version-check"
    $install --find-links "$1" --requirement "$2"
    $install --no-deps "$3"
    cd "$4"
    exec /tmp/venv/bin/python3 -m pytest -q -p no:cacheprovider --ignore=fleet --basetemp /tmp/tests
' sh "$wheels" "$requirements" "$wheel" "$repository/python/tests"
