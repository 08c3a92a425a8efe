# Prepares a guest: a file system on the second disk with a typical line in fstab, and a unit.
set -e
quick
# The boot must be complete, because it writes files, too.
systemctl is-system-running --wait >/dev/null || true
DISK=/dev/disk/by-id/virtio-disk1
chmod +x /usr/local/bin/fonio
mkfs.ext4 -q -F $DISK
mkdir -p /mnt/card /var/lib/histories
touch /etc/fstab
printf '# cards\nUUID=%s\t/mnt/card\text4  rw,relatime,nofail\t0 2\n' $(blkid -s UUID -o value $DISK) >>/etc/fstab
printf '[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/backup.service
systemctl daemon-reload
systemctl enable --now backup.service
mount /mnt/card
cp /etc/fstab /root/fstab
cat /proc/sys/vm/swappiness >/root/swappiness
# Filling a large file system takes minutes on a simulated processor.
fallocate -l $(($(stat -f -c '%f * %S' /) - (256 << 20))) /ballast
# fonio remembers nothing yet; these folders exist after any command.
fonio fix undo >/dev/null 2>&1 || true
sync
