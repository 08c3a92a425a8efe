# Copies an image of containers with skopeo. Runs in mount and process namespaces of its own, so that no mount and no process is
# left. $1 is the root directory with skopeo, which stays unchanged; $2 an empty folder for the image and for scratch; $3 the
# folder whose files skopeo reads; the others are skopeo's words, in which /mnt is $2 and /media is $3.
set -e
builder=$1
folder=$2
source=$3
shift 3

make_root "$builder" "$folder"
mkdir -p "$folder/tmp" "$target/media"
mount --bind "$source" "$target/media"
# The network as this machine uses it.
take_files /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt /etc/containers/registries.conf
chroot "$target" /usr/bin/env -i PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8 TMPDIR=/mnt/tmp \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt "$@"
