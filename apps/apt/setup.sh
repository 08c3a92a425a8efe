# Makes a system with $1 installed packages in the folder $2/system, on the device, and a repository in memory that has them in
# version 2, with 20,000 packages that nobody installs. $3 is the file with apt's settings.
set -e
system=$2/system
for folder in etc/apt/apt.conf.d etc/apt/preferences.d var/lib/dpkg/info var/lib/dpkg/updates var/lib/apt/lists/partial \
    var/cache/apt/archives/partial var/log/apt; do
    mkdir -p "$system/$folder"
done
: >"$system/var/lib/dpkg/status"
mkdir /tmp/repository /tmp/installed
echo 'deb [trusted=yes] copy:/tmp/repository ./' >"$system/etc/apt/sources.list"
cat >"$3" <<END
Dir "$system";
Dir::Bin::methods "/usr/lib/apt/methods";
Dir::Bin::dpkg "/usr/bin/dpkg";
DPkg::Options { "--root=$system"; "--log=$system/var/log/dpkg.log"; };
Acquire::Languages "none";
END

# Each package has about 1 MiB in 60 files of Debian's perl.
find /usr/lib/x86_64-linux-gnu/perl-base -type f | sort >/tmp/files
awk 'BEGIN {
    for (i = 1; i <= 20000; i++)
        printf "Package: other-%d\nVersion: 1.%d\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nInstalled-Size: %d\nDepends: other-%d\nSection: misc\nPriority: optional\nFilename: ./other-%d.deb\nSize: %d\nSHA256: %064d\nDescription: a package that nobody installs\n\n", i, i % 7, i, i % 100 + 1, i, i, i
}' >/tmp/repository/Packages
for i in $(seq "$1"); do
    folder=/tmp/p$i
    mkdir -p "$folder/DEBIAN" "$folder/usr/share/p$i"
    cp --parents $(sed -n "$((i % 20 * 7 + 1)),$((i % 20 * 7 + 60))p" /tmp/files) "$folder/usr/share/p$i"
    head -c 500000 /usr/bin/dpkg >"$folder/usr/share/p$i/large"
    for version in 1 2; do
        printf 'Package: p%s\nVersion: %s\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: a package\n' "$i" "$version" >"$folder/DEBIAN/control"
        to=/tmp/installed
        test "$version" = 1 || to=/tmp/repository
        dpkg-deb -Zzstd -z1 -b "$folder" "$to/p$i.deb" >/dev/null
    done
    rm -r "$folder"
    made=/tmp/repository/p$i.deb
    {
        dpkg-deb -f "$made"
        echo "Filename: ./p$i.deb"
        echo "Size: $(stat -c %s "$made")"
        echo "SHA256: $(sha256sum "$made" | cut -d' ' -f1)"
        echo
    } >>/tmp/repository/Packages
done
dpkg --root="$system" --force-unsafe-io -i /tmp/installed/*.deb >/dev/null
