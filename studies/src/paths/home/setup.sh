# Puts a home server on the emulated card, which is mounted at /srv: MariaDB, Mosquitto, Home Assistant with its
# recorder, and photographs that a nightly rsync copies. The services run, also after a reboot; the copy does not run yet.
set -e
card=/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_card1
mkfs.ext4 -q -F $card
systemctl stop mariadb mosquitto
cat >>/etc/fstab <<END
/dev/disk/by-id/virtio-image1 /opt/home-assistant ext4 ro 0 0
$card /srv ext4 defaults 0 0
/srv/mysql /var/lib/mysql none bind,x-systemd.requires-mounts-for=/srv 0 0
/srv/mosquitto /var/lib/mosquitto none bind,x-systemd.requires-mounts-for=/srv 0 0
END
mkdir -p /opt/home-assistant
mount /opt/home-assistant
mount /srv
for name in mysql mosquitto; do
    cp -a /var/lib/$name /srv/$name
    mount /var/lib/$name
done
printf 'autosave_interval 1\nautosave_on_changes true\n' >/etc/mosquitto/conf.d/card.conf
mkdir -p /srv/photos /srv/home/.storage /srv/backup
for number in $(seq 60); do head -c 4M /dev/urandom >/srv/photos/$number.jpg; done
sync -f /srv
systemctl start mariadb mosquitto
mariadb -e 'create database shop; create table shop.orders (id int auto_increment primary key, t varchar(255)) engine=innodb'
cp /root/configuration.yaml /srv/home/
cp /root/core.config_entries /srv/home/.storage/
service() {
    printf '[Unit]\nRequiresMountsFor=/srv /opt/home-assistant\nAfter=mariadb.service mosquitto.service\n[Service]\nExecStart=%s\nEnvironment=PYTHONPATH=/opt/home-assistant\n[Install]\nWantedBy=multi-user.target\n' "$2" >/etc/systemd/system/$1.service
}
service home-assistant '/usr/bin/python3 -m homeassistant -c /srv/home --skip-pip'
service orders '/usr/bin/python3 /root/orders.py'
service sensors '/bin/sh /root/sensors.sh'
service nightly '/bin/sh /root/nightly.sh'
systemctl daemon-reload
systemctl -q enable --now home-assistant orders sensors
systemctl -q enable nightly
exec sh /root/ready.sh
