"""Packs the files that devices sent as Parquet files, copies them, and rewrites a fleet with the present columns."""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict

import pyarrow as pa
import pyarrow.parquet as pq

from .intake import to_table
from .problems import FleetError, Problems
from .schema import KEYS, TABLES, conformed
from .store import Location
from .table import read_arrived, read_results, take

_ARRIVED = re.compile(r"^(?:arrived/)?(\d{4}-\d{2}-\d{2}/[^/]+\.jsonl(?:\.gz)?)$")
_RESULT = re.compile(r"^storebench/[^/]+/[^/]+\.json$")
#: Files of devices that are read together: bounds the memory.
_BATCH = 20_000


def pack(source: Location, target: Location) -> str:
    """Writes the complete files of devices as Parquet files, one for each day, table and batch.

    A batch has a name that follows from its files, so that a repeated or interrupted run writes the same files again,
    and not twice. The source keeps its files; the file `packed/DAY.txt` lists those that are packed, and a report does
    not read them again. Half-written files are not listed, so that a later run packs them when they are complete.
    """
    files = source.files()
    packed_lists = {file.path for file in files if file.path.startswith("packed/")}
    done: set[str] = set()
    for path in packed_lists:
        done |= set(source.read(path, 1 << 30).decode().splitlines())
    by_day: dict[str, list[str]] = defaultdict(list)
    for file in files:
        found = _ARRIVED.match(file.path)
        if found and file.path not in done:
            by_day[found[1].split("/")[0]].append(file.path)
    problems, count = Problems(), 0
    for day, paths in sorted(by_day.items()):
        for start in range(0, len(paths), _BATCH):
            batch = paths[start : start + _BATCH]
            batch_problems = Problems()
            usable: list[str] = []
            tables = read_arrived(source, batch, batch_problems, usable)
            problems.merge(batch_problems)
            if not usable:
                continue
            name = hashlib.sha256("\n".join(usable).encode()).hexdigest()[:16]
            for table, rows in tables.items():
                target.write(f"{table}/{day}/{name}.parquet", _encoded(table, rows))
            # Listed last: after an interruption, the same files are packed again, under the same name.
            source.write(f"packed/{day}-{name}.txt", ("\n".join(usable) + "\n").encode())
            count += len(usable)
    # Results are few: one file for each day has the rows of all documents that came since the last call.
    documents = [file.path for file in files if _RESULT.match(file.path) and file.path not in done]
    dated: list[tuple[str, str]] = []
    rows = read_results(source, documents, problems, dated)
    of_day: dict[str, list[str]] = defaultdict(list)
    for day, path in dated:
        of_day[day].append(path)
    for day, paths in sorted(of_day.items()):
        name = hashlib.sha256("\n".join(paths).encode()).hexdigest()[:16]
        chosen = [row for row in rows if str(row["day"]) == day]
        target.write(f"results/{day}/{name}.parquet", _encoded("results", to_table("results", chosen)))
        source.write(f"packed/{day}-{name}.txt", ("\n".join(paths) + "\n").encode())
        count += len(paths)
    told = f"Packed {count:,} files of devices to {target.place}."
    return "\n".join([told, *problems.texts()])


def migrate(source: Location, target: Location) -> str:
    """Writes all usable rows of a fleet to another, empty location, with the present columns.

    There is one file for each day and table.

    The source stays as it is. Recordings are not copied.
    """
    if target.is_local and os.path.isdir(target.root) and os.listdir(target.root):
        raise FleetError(f"{target.place} is not empty; name a new folder")
    snapshot = take(source, with_recordings=False)
    days: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, paths in snapshot.files.items():
        for path in paths:
            days[name, path.split("/")[1]].append(path)
    arrived: dict[str, list[str]] = defaultdict(list)
    for path in snapshot.arrived:
        arrived[path.split("/")[1]].append(path)
    results: dict[str, list[dict]] = defaultdict(list)
    for row in read_results(source, snapshot.documents, Problems()):
        results[str(row["day"])].append(row)
    count = 0
    for day in sorted({day for _, day in days} | set(arrived) | set(results)):
        sent = read_arrived(source, arrived[day], Problems()) if arrived[day] else {}
        for name in TABLES:
            parts = [_read(source, name, path) for path in days[name, day]] + ([sent[name]] if sent else [])
            if name == "results" and results[day]:
                parts.append(to_table(name, results[day]))
            rows = pa.concat_tables(parts) if parts else TABLES[name].empty_table()
            if rows.num_rows:
                target.write(f"{name}/{day}/migrated.parquet", _encoded(name, rows))
                count += rows.num_rows
    told = f"Wrote {count:,} rows to {target.place}."
    return "\n".join([told, *snapshot.problems.texts()])


def _read(location: Location, name: str, path: str) -> pa.Table:
    def read() -> pa.Table:
        with location.fs.open_input_file(location.full(path)) as file:
            return conformed(name, pq.ParquetFile(file).read())

    return location.retried(f"read {path}", read)


def _encoded(name: str, rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    ordered = rows.sort_by([(key, "ascending") for key in KEYS[name]])
    pq.write_table(ordered.cast(TABLES[name]), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def send(source: Location, target: Location) -> str:
    """Copies the files of devices that the target does not have."""
    wanted = {}
    for file in source.files():
        if found := _ARRIVED.match(file.path):
            wanted[f"arrived/{found[1]}"] = file.path
        elif _RESULT.match(file.path):
            wanted[file.path] = file.path
    if not wanted:
        raise FleetError(f"{source.place} has no files of devices; write some with `fonio watch send --to DIR`")
    try:
        known = {file.path for file in target.files()}
    except FleetError as error:
        if error.__cause__ is not None or target.is_local:
            raise
        # An object store has no empty folders.
        known = set()
    missing = {to: path for to, path in wanted.items() if to not in known}
    target.each(list(missing), lambda to: target.write(to, source.read(missing[to], 8 << 20)))
    return f"Sent {len(missing):,} files to {target.place}; {len(wanted) - len(missing):,} were there."
