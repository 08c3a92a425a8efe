# Makes the journal's folder and the text log's folder in $1, on the device, and what journald expects of a system.
set -e
mkdir -p "$1/journal" "$1/log" /run/systemd/journal /etc/systemd/journald.conf.d
rm -rf /var/log/journal
ln -s "$1/journal" /var/log/journal
echo 0123456789abcdef0123456789abcdef >/etc/machine-id
# The messages of this machine's kernel and of its audit system are not read.
printf '[Journal]\nStorage=persistent\nReadKMsg=no\nAudit=no\n' >/etc/systemd/journald.conf.d/fonio.conf
# systemd makes this file when the journal's folder is mounted.
: >/run/systemd/journal/flushed
cat >/tmp/logrotate.conf <<END
$1/log/*.log {
    weekly
    rotate 4
    compress
    delaycompress
    missingok
    notifempty
}
END
