# Puts a home server on the emulated card, which is mounted at /srv: MariaDB, Mosquitto, Home Assistant with its
# recorder, and photographs that a nightly rsync copies. The services run; the copy does not.
set -e
mkdir -p /opt/home-assistant
mount -o ro /dev/disk/by-id/virtio-image1 /opt/home-assistant
card=/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_card1
mkfs.ext4 -q -F $card
mount $card /srv
# The scheduler that heeds I/O classes best; some distributions choose it for cards.
modprobe bfq
echo bfq >/sys/block/sda/queue/scheduler
systemctl stop mariadb mosquitto
for name in mysql mosquitto; do
    cp -a /var/lib/$name /srv/$name
    mount --bind /srv/$name /var/lib/$name
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
    printf '[Service]\nExecStart=%s\nEnvironment=PYTHONPATH=/opt/home-assistant\n' "$2" >/etc/systemd/system/$1.service
}
service home-assistant '/usr/bin/python3 -m homeassistant -c /srv/home --skip-pip'
service orders '/usr/bin/python3 /root/orders.py'
service sensors '/bin/sh /root/sensors.sh'
service nightly '/bin/sh /root/nightly.sh'
systemctl daemon-reload
systemctl start home-assistant orders sensors
# The recorder is ready when it has stored states of the sensor.
for second in $(seq 600); do
    python3 -c "import sqlite3; db = sqlite3.connect('file:/srv/home/home-assistant_v2.db?mode=ro', uri=True); \
assert db.execute(\"select count(*) from states_meta where entity_id = 'sensor.power'\").fetchone()[0]" 2>/dev/null && exit 0
    sleep 1
done
echo 'the recorder of Home Assistant stored no state of the sensor'
cat /srv/home/home-assistant.log
exit 1
