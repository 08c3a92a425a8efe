"""What devices sent: one JSON Lines file for each device and day, written by `fonio watch send`.

The first line describes the device, the last line has the number of lines, and the lines between are rows of the
tables. A file without its last line is half-written: it is counted and left out, and a later reading uses it when it is
complete.
"""

from __future__ import annotations

import datetime
import gzip
import json

import pyarrow as pa

from .problems import Problems
from .schema import TABLES, VERSION

#: The largest file of a device and day: about a thousand times the usual size.
BYTES_MAX = 8 << 20
LINES_MAX = 20_000

_KINDS = {"disk": "days", "unit": "units", "stall": "stalls"}
#: The columns that the first line gives to all rows of a file.
_OF_DEVICE = ("device", "day", "source", "writer", "model", "kernel", "os")


class Refused(Exception):
    """A file is left out: the code of the reason, and a sentence."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


def parse(data: bytes) -> dict[str, list[dict]]:
    """Returns the rows of the tables in a file of a device and day. Raises `Refused` if it cannot be used."""
    if data[:2] == b"\x1f\x8b":
        try:
            data = _unpacked(data)
        except (OSError, EOFError, ValueError) as error:
            raise Refused("damaged", "the compressed data are damaged") from error
    lines = data.decode("utf-8", errors="replace").splitlines()
    if not lines:
        raise Refused("half-written", "the file has no last line, so it is not complete")
    if len(lines) > LINES_MAX:
        raise Refused("too-large", f"it has more than {LINES_MAX} lines")
    parsed = []
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(row, dict):
            break
        parsed.append(row)
    head = parsed[0] if parsed else {}
    version = head.get("schema")
    if isinstance(version, int) and version > VERSION:
        raise Refused("newer", f"its schema is newer than {VERSION}; update the package fonio on this machine")
    if len(parsed) != len(lines) or parsed[-1].get("kind") != "end" or parsed[-1].get("lines") != len(lines):
        raise Refused("half-written", "the file has no last line, so it is not complete")
    if head.get("kind") != "device" or version != VERSION or not isinstance(head.get("device"), str):
        raise Refused("not-ours", "it is not a file of `fonio watch send`")
    try:
        day = datetime.date.fromisoformat(str(head.get("day")))
    except ValueError:
        raise Refused("not-ours", "it is not a file of `fonio watch send`") from None
    shared = {name: head.get(name) for name in _OF_DEVICE} | {"day": day}
    rows: dict[str, list[dict]] = {name: [] for name in TABLES}
    for row in parsed[1:-1]:
        table = _KINDS.get(str(row.get("kind")))
        if table is not None:
            rows[table].append({**row, **shared})
    return rows


def _unpacked(data: bytes) -> bytes:
    import io

    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        plain = file.read(BYTES_MAX + 1)
    if len(plain) > BYTES_MAX:
        raise ValueError("too large")
    return plain


def to_table(name: str, rows: list[dict]) -> pa.Table:
    """Returns rows as a table with the published columns. Raises `Refused` if a value has another type."""
    schema = TABLES[name]
    try:
        return pa.Table.from_pylist([{field: row.get(field) for field in schema.names} for row in rows], schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise Refused("wrong-type", "a value has the wrong type") from error


def read_all(
    files: list[tuple[str, bytes]], problems: Problems, usable: list[str] | None = None
) -> dict[str, pa.Table]:
    """Returns the tables of many files. Counts unusable files in `problems`, and lists the others in `usable`."""
    tables: dict[str, list[pa.Table]] = {name: [TABLES[name].empty_table()] for name in TABLES}
    rows: dict[str, list[dict]] = {name: [] for name in TABLES}
    for path, data in files:
        try:
            found = parse(data)
            # Checked for each file, so that one wrong value does not cost the other files.
            for name, new in found.items():
                to_table(name, new)
        except Refused as refused:
            problems.add(refused.code, refused.sentence, path)
            continue
        if usable is not None:
            usable.append(path)
        for name, new in found.items():
            rows[name].extend(new)
    for name, new in rows.items():
        tables[name].append(to_table(name, new))
    return {name: pa.concat_tables(parts) for name, parts in tables.items()}
