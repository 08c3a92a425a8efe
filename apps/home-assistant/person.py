"""Asks Home Assistant twice a second, in turn to toggle the lamp and for the history of a sensor. The argument is the number of
requests. Writes the name and the seconds of each answer to a file."""

import http.client
import json
import os
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

PAUSE_S = 0.5
SENSORS = 300

run = Path(os.environ["RUN_FOLDER"])
headers = {"Authorization": f"Bearer {(run / 'token').read_text()}", "Content-Type": "application/json"}
connection = http.client.HTTPConnection("127.0.0.1", 8123, timeout=300)


def ask(method, path, body=None):
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        sys.exit(f"{method} {path}: {answer.status} {text[:300]}")
    return json.loads(text)


def toggle(_at):
    ask("POST", "/api/services/input_boolean/toggle", json.dumps({"entity_id": "input_boolean.lamp"}))


def history(at):
    since = (datetime.now(timezone.utc) - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%S+00:00")
    sensor = at * 7 % SENSORS
    path = f"/api/history/period/{since}?filter_entity_id=sensor.thermometer_{sensor}&minimal_response&no_attributes"
    found = ask("GET", path.replace("+", "%2B", 1))
    if not found or len(found[0]) < 2:
        sys.exit(f"the sensor {sensor} has no history: {found}")


with (run / "responses").open("w") as out:
    began = time.monotonic()
    for at in range(int(sys.argv[1])):
        time.sleep(max(0.0, began + at * PAUSE_S - time.monotonic()))
        name, request = (("toggle", toggle), ("history", history))[at % 2]
        asked = time.monotonic()
        request(at)
        out.write(f"{name} {time.monotonic() - asked:.6f}\n")
