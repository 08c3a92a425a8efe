# Installs packages of PyPI into a folder. Runs in mount and process namespaces of its own, so that no mount and no process is
# left. $1 is the root directory with pip, which stays unchanged; $2 the folder with `list` (what to install), `tree` (where to),
# `tmp` and `scratch` (empty). The others are environment variables for pip.
set -e
builder=$1
folder=$2
shift 2

make_root "$builder" "$folder"
chmod 1777 "$folder/tmp"
mount --bind "$folder/tmp" "$target/tmp"
# The network as this machine uses it: its name servers, its certificates, and where its pip finds PyPI.
take_files /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt /etc/pip.conf
for file in "$HOME/.pip/pip.conf" "$HOME/.config/pip/pip.conf"; do
    if test -e "$file"; then
        mkdir -p "$target/root/.config/pip"
        cp -L "$file" "$target/root/.config/pip/pip.conf"
    fi
done

python() {
    chroot "$target" /usr/bin/env -i PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8 NO_COLOR=1 \
        PIP_CERT=/etc/ssl/certs/ca-certificates.crt "$@"
}
python "$@" python3 -m pip install --no-input --no-cache-dir --disable-pip-version-check --no-warn-script-location \
    --break-system-packages --root-user-action=ignore --prefer-binary --ignore-installed --root /mnt/tree --requirement /mnt/list
python sh -c 'python3 -m pip list --format=freeze --disable-pip-version-check \
    --path /mnt/tree/usr/local/lib/python3*/dist-packages' >"$folder/versions"
