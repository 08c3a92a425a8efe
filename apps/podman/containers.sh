# Runs $1 containers one after the other, each of which writes a file and is removed.
for i in $(seq "$1"); do
    test "$(podman run --rm image sh -c "seq 10000 >/tmp/file && echo container $i")" = "container $i" || exit 1
done
