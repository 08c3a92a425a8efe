# Waits until MariaDB takes orders and the recorder of Home Assistant has stored a new state of the sensor.
count() {
    python3 -c "import sqlite3; db = sqlite3.connect('file:/srv/home/home-assistant_v2.db?mode=ro', uri=True); \
print(db.execute(\"select count(*) from states s join states_meta m using (metadata_id) where m.entity_id = 'sensor.power'\").fetchone()[0])" 2>/dev/null
}
before=$(count)
for second in $(seq 600); do
    now=$(count)
    [ "${now:-0}" -gt "${before:-0}" ] && [ -s /run/orders.log ] && exit 0
    sleep 1
done
echo 'the recorder of Home Assistant stored no state of the sensor, or MariaDB took no orders'
cat /srv/home/home-assistant.log
exit 1
