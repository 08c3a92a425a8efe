systemctl is-system-running --wait >/dev/null
set -e
chmod 755 /usr/bin/fonio
mkdir -p /etc/fonio /srv/app
cat >/srv/app/app.py <<END
import sqlite3, time
notes = sqlite3.connect('/srv/app/notes.db', isolation_level=None)
cache = sqlite3.connect('/srv/app/cache.db', isolation_level=None)
for db in (notes, cache):
    db.execute('PRAGMA journal_mode=WAL')
    db.execute('PRAGMA synchronous=FULL')
    db.execute('CREATE TABLE IF NOT EXISTS t (x)')
while True:
    for db in (notes, cache):
        db.execute('INSERT INTO t VALUES (1)')
    time.sleep(0.2)
END
cat >/etc/systemd/system/app.service <<END
[Service]
ExecStart=/usr/bin/python3 /srv/app/app.py
[Install]
WantedBy=multi-user.target
END
cp /usr/bin/python3 /usr/local/bin/suid && chmod 4755 /usr/local/bin/suid
for other in suid static; do
    printf '[Service]\nExecStart=/usr/local/bin/%s -c 1\n' $other >/etc/systemd/system/$other.service
done
systemctl daemon-reload
systemctl enable --quiet --now app.service
sleep 2
