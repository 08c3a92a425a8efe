mkfs.ext4 -q -F $DISK &&
mkdir -p /mnt/card &&
touch /etc/fstab &&
printf '# cards\nUUID=%s\t/mnt/card\text4  rw,relatime,nofail\t0 2\n' $(blkid -s UUID -o value $DISK) >>/etc/fstab &&
printf '[Service]
ExecStart=/usr/bin/sleep infinity
[Install]
WantedBy=multi-user.target
' >/etc/systemd/system/backup.service &&
systemctl daemon-reload &&
systemctl enable --now backup.service &&
mount /mnt/card &&
mkdir -p /srv/logs /srv/app /srv/files /srv/hot /mnt/card/app &&
echo first | tee /srv/logs/log /srv/app/notes /srv/hot/file >/srv/files/file &&
systemctl disable --now fstrim.timer
