"""Recordings in a fleet: each becomes one row of the table `days`, from its `meta.json` and its requests."""

from __future__ import annotations

import datetime
import hashlib
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .intake import Refused
from .problems import FleetError
from .schema import CLASSES, SLOW_CLASS
from .store import Location, is_damaged

#: The version of the schema of recordings that this package reads.
VERSION = 1
META_BYTES_MAX = 8 << 20
_COLUMNS = ["device", "op", "bytes", "queued_ns", "issued_ns", "completed_ns"]
_NAMES = {
    "read": ("reads", "read_us", "slow_reads", "read_classes"),
    "write": ("writes", "write_us", "slow_writes", "write_classes"),
    "flush": ("flushes", "flush_us", "slow_flushes", "flush_classes"),
}


def rows(location: Location, folder: str) -> list[dict]:
    """Returns the rows of a recording, one for each disk. Raises `Refused` if it cannot be used."""
    try:
        meta = json.loads(location.read(f"{folder}/meta.json", META_BYTES_MAX))
    except ValueError as error:
        raise Refused("half-written-recording", "a file of the recording is missing or not complete") from error
    version = meta.get("schema_version")
    if not isinstance(version, int) or version > VERSION:
        raise Refused("newer-recording", f"the recording's schema is newer than {VERSION}; update the package fonio")
    zero = (meta.get("clock") or {}).get("unix_ns_at_zero")
    began, ended = meta.get("began"), meta.get("ended")
    if not isinstance(zero, int) or not isinstance(began, int) or not isinstance(ended, int):
        raise Refused("no-time", "the recording does not say on which day it was made, or has no end")
    day = datetime.date(1970, 1, 1) + datetime.timedelta(days=(zero + began) // 86_400_000_000_000)
    host = meta.get("host") or {}
    sums = _sums(location, f"{folder}/requests.parquet")
    # Only the lowest disks count: their requests are those of the devices above them.
    above = {device["id"] for device in meta.get("devices", []) if device.get("below")}
    found = []
    for device in meta.get("devices", []):
        # The requests name a device by its major and minor number.
        number = f"{device['id'] >> 20}:{device['id'] & 0xFFFFF}"
        if device["id"] in above or number not in sums:
            continue
        # A host's name is a name of a person's machine: it is replaced, as in `fonio watch send`.
        name = host.get("name")
        found.append(
            {
                "device": "host-" + hashlib.sha256(name.encode()).hexdigest()[:16] if name else None,
                "day": day,
                "source": "recording",
                "writer": meta.get("writer"),
                "model": host.get("model"),
                "kernel": host.get("kernel"),
                "disk": device.get("name"),
                "disk_model": device.get("model"),
                "disk_bytes": device.get("size_bytes"),
                "watched_s": max((ended - began) // 1_000_000_000, 1),
                **sums[number],
            }
        )
    return found


def _sums(location: Location, path: str) -> dict[str, dict]:
    def read() -> dict[str, dict]:
        with location.fs.open_input_file(location.full(path)) as file:
            parquet = pq.ParquetFile(file)
            wanted = [name for name in _COLUMNS if name in parquet.schema_arrow.names]
            missing = set(_COLUMNS) - set(wanted) - {"issued_ns", "queued_ns"}
            if missing:
                raise Refused("older-recording", f"the recording has no column {min(missing)}")
            sums: dict[str, dict] = {}
            for batch in parquet.iter_batches(columns=wanted, batch_size=1 << 16):
                _add(sums, pa.Table.from_batches([batch]))
            return sums

    half_written = Refused("half-written-recording", "a file of the recording is missing or not complete")
    try:
        return location.retried(f"read {path}", read)
    except (pa.ArrowInvalid, FileNotFoundError) as error:
        raise half_written from error
    except FleetError as error:
        if is_damaged(error.__cause__):
            raise half_written from error
        raise


def _add(sums: dict[str, dict], table: pa.Table) -> None:
    # Response time, and service time where the source does not show queueing.
    columns = [table[name] for name in ("queued_ns", "issued_ns") if name in table.column_names]
    begin = pc.coalesce(*columns) if columns else pa.nulls(table.num_rows, pa.int64())
    took = pc.subtract(pc.cast(table["completed_ns"], pa.int64()), pc.cast(begin, pa.int64()))
    op = table["op"]
    ops = pc.cast(op, pa.string())
    devices = pc.cast(table["device"], pa.string())
    for device in pc.unique(devices).to_pylist():
        row = sums.setdefault(
            device, {name: 0 for names in _NAMES.values() for name in names[:3]} | {"read_bytes": 0, "written_bytes": 0}
        )
        for kind, (count, total, slow, classes) in _NAMES.items():
            chosen = pc.and_(pc.equal(devices, device), pc.equal(ops, kind))
            times = pc.filter(took, chosen).drop_null().to_numpy() // 1000
            times = times[times >= 0]
            row[count] += len(times)
            row[total] += int(times.sum())
            found = np.minimum(
                np.where(times > 0, np.floor(np.log2(np.maximum(times, 1))).astype(int) + 1, 0), CLASSES - 1
            )
            row[slow] += int((found >= SLOW_CLASS).sum())
            counts = np.bincount(found, minlength=CLASSES)
            row[classes] = (np.array(row.get(classes) or [0] * CLASSES) + counts).tolist()
            if kind in ("read", "write"):
                total_bytes = pc.sum(pc.filter(table["bytes"], chosen)).as_py() or 0
                row["read_bytes" if kind == "read" else "written_bytes"] += total_bytes
