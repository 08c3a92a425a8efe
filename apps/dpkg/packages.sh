# Makes $1 packages in the folder made, and an empty list of installed packages in the folder system.
set -e
mkdir -p made system/var/lib/dpkg/updates system/var/lib/dpkg/info
: >system/var/lib/dpkg/status
find /usr/lib/x86_64-linux-gnu/perl-base -type f | sort >/tmp/files
for i in $(seq "$1"); do
    mkdir -p "/tmp/p$i/DEBIAN" "/tmp/p$i/usr/share/p$i"
    n=0
    for file in $(sed -n "$((i * 7 + 1)),$((i * 7 + 60))p" /tmp/files); do
        n=$((n + 1))
        cp "$file" "/tmp/p$i/usr/share/p$i/$n-$(basename "$file")"
    done
    head -c 500000 /usr/bin/dpkg >"/tmp/p$i/usr/share/p$i/large"
    printf 'Package: p%s\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: a package\n' "$i" >"/tmp/p$i/DEBIAN/control"
    dpkg-deb -Znone -b "/tmp/p$i" "made/p$i.deb" >/dev/null
done
