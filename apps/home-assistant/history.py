"""Inserts two hours of states into the database of Home Assistant, as its recorder writes them. The argument is the file. With
the word `wait` after it, waits instead until the recorder has written the sensors."""

import random
import sqlite3
import sys
import time

INTERVAL_S = 30
HOURS = 2

COUNT = 300
WAIT_S = 120

database = sqlite3.connect(sys.argv[1], timeout=60)


def recorded():
    """Return the numbers of the sensors that the recorder knows."""
    return [row[0] for row in database.execute("SELECT metadata_id FROM states_meta WHERE entity_id LIKE 'sensor.thermometer_%'")]


until = time.monotonic() + WAIT_S
while len(recorded()) < COUNT:
    if time.monotonic() > until:
        sys.exit(f"Home Assistant recorded {len(recorded())} of {COUNT} sensors in {WAIT_S} s")
    time.sleep(0.1)
if sys.argv[2:] == ["wait"]:
    sys.exit()
sensors = recorded()
attributes = dict(database.execute("SELECT metadata_id, max(attributes_id) FROM states GROUP BY metadata_id"))
first = database.execute("SELECT min(last_updated_ts) FROM states").fetchone()[0] or time.time()
rng = random.Random(1)
rows = []
for change in range(HOURS * 3600 // INTERVAL_S):
    at = first - HOURS * 3600 + change * INTERVAL_S
    for place, sensor in enumerate(sensors):
        value = f"{20 + rng.randrange(-30, 31) / 10:.1f}"
        updated = at + INTERVAL_S * place / len(sensors)
        context = rng.randbytes(16)
        rows.append((value, updated, attributes[sensor], 0, context, sensor))
database.executemany(
    "INSERT INTO states(state, last_updated_ts, attributes_id, origin_idx, context_id_bin, metadata_id) VALUES(?, ?, ?, ?, ?, ?)",
    rows,
)
database.commit()
database.close()
