systemctl is-system-running --wait >/dev/null
set -e
udevadm settle
mkfs.ext4 -q /dev/sda
mkdir -p /mnt/card
touch /etc/fstab
printf '# the card\nUUID=%s\t/mnt/card\text4  defaults,nofail\t0 2\n' $(blkid -s UUID -o value /dev/sda) >>/etc/fstab
cat >/etc/systemd/system/notes.service <<END
[Unit]
RequiresMountsFor=/mnt/card
[Service]
ExecStart=/bin/sh -c 'while sleep 2; do echo "INSERT INTO notes(text) VALUES(hex(randomblob(100)));"; done | sqlite3 -batch /mnt/card/notes.db'
[Install]
WantedBy=multi-user.target
END
cat >/etc/systemd/system/backup.service <<END
[Unit]
RequiresMountsFor=/mnt/card
[Service]
ExecStart=/bin/sh -c 'while :; do dd if=/dev/zero of=/mnt/card/backup.tar bs=1M count=200 status=none; sleep 5; done'
[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
mount /mnt/card
sqlite3 /mnt/card/notes.db 'CREATE TABLE notes(text)'
systemctl enable --quiet --now notes.service backup.service
sleep 5
systemctl is-active notes.service backup.service
