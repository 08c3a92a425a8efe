# Makes $1 files in memory: every tenth is a photo of 2 MB, the others are documents of 100 kB.
mkdir -p /tmp/files
for i in $(seq "$1"); do
    size=100000
    test $((i % 10)) -ne 0 || size=2000000
    head -c $size /dev/urandom >/tmp/files/$i
done
