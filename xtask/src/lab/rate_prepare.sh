DISK=/dev/disk/by-id/virtio-disk1
mkfs.ext4 -q -F $DISK && mkdir -p /mnt/card && mount $DISK /mnt/card &&
mountpoint -d /mnt/card >/root/device &&
printf '#!/bin/sh\nwhile :; do dd if=/dev/zero of=/mnt/card/loop bs=64k count=64 oflag=direct conv=notrunc 2>/dev/null; done\n' >/root/loop &&
chmod +x /root/loop &&
printf '[Service]\nExecStart=/usr/bin/sleep infinity\n' >/etc/systemd/system/backup.service &&
printf '[Service]\nKillMode=process\nExecStart=/bin/sh -c "sleep 10000 & exec sleep infinity"\n' >/etc/systemd/system/cron.service &&
systemctl daemon-reload && systemctl start backup.service cron.service &&
dd if=/dev/zero of=/mnt/card/file bs=1M count=8 conv=fsync 2>/dev/null
