# Moves the folders to which the services write onto the device: prepare.sh DATA
set -e
data=$1
mkdir -p "$data/log/journal" "$data/log/sysstat" "$data/collectd/rrd" "$data/vnstat" "$data/syncthing" /run/systemd/journal
chmod 755 "$data"
rm -rf /var/log /var/lib/collectd /var/lib/vnstat
ln -s "$data/log" /var/log
ln -s "$data/collectd" /var/lib/collectd
ln -s "$data/vnstat" /var/lib/vnstat
[ -s /etc/machine-id ] || tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id
echo 'ENABLED="true"' >/etc/default/sysstat
# journald asks which control group a message comes from.
mkdir -p /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
# journald writes to its permanent folder from the beginning.
touch /run/systemd/journal/flushed
ln -sf /run/systemd/journal/dev-log /dev/log
# The messages of this machine's kernel are not those of the server.
printf '[Journal]\nReadKMsg=no\nForwardToSyslog=yes\n' >/etc/systemd/journald.conf
sed -i -e 's|load="imuxsock"|& SysSock.Name="/run/systemd/journal/syslog"|' -e '/imklog/d' /etc/rsyslog.conf
# There is no name server.
sed -i 's/^FQDNLookup true/FQDNLookup false/' /etc/collectd/collectd.conf
# This machine has many loop devices; the server has one disk.
printf '<Plugin disk>\nDisk "/^(vda|sda|mmcblk0|nvme0n1)$/"\n</Plugin>\n' >/etc/collectd/collectd.conf.d/disk.conf
# vnStat does not count the loopback device.
ip link add eth0 type veth peer name eth1
ip link set eth0 up
