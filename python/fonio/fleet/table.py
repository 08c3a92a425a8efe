"""The files of a fleet at one moment, checked, and given to an engine.

The list of files is read once, at the beginning. Files that arrive while a report runs belong to the next report.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from . import intake, recordings, storebench
from .engines import Engine
from .problems import FleetError, Problems
from .schema import TABLES, VERSION, VERSION_KEY
from .store import File, Location, is_damaged

_TABLE_FILE = re.compile(r"^(days|units|stalls|results)/(\d{4}-\d{2}-\d{2})/[^/]+\.parquet$")
_ARRIVED_FILE = re.compile(r"^arrived/(\d{4}-\d{2}-\d{2})/[^/]+\.jsonl(\.gz)?$")
_RESULT_FILE = re.compile(r"^storebench/([^/]+)/[^/]+\.json$")
_META_FILE = re.compile(r"^(?:.+/)?([^/]+)/meta\.json$")

#: The most files of devices that one report reads; with more, `pack` has to make Parquet files of them.
ARRIVED_MAX = 200_000


@dataclass
class Snapshot:
    """The usable files of a fleet."""

    location: Location
    #: Parquet files by table.
    files: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in TABLES})
    #: The columns that the files of a table have.
    columns: dict[str, set[str]] = field(default_factory=lambda: {name: set() for name in TABLES})
    rows: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TABLES, 0))
    file_bytes: int = 0
    arrived: list[str] = field(default_factory=list)
    recordings: list[str] = field(default_factory=list)
    #: Documents of StoreBench.
    documents: list[str] = field(default_factory=list)
    problems: Problems = field(default_factory=Problems)
    #: The rows of files that are not Parquet files of the tables.
    extra: dict[str, pa.Table] = field(default_factory=dict)

    def give(self, engine: Engine) -> None:
        """Defines the tables `days_raw`, `units_raw`, `stalls_raw` and `results_raw` in an engine."""
        for name in TABLES:
            engine.table(name, self.location, self.files[name], self.columns[name], self.extra.get(name))


def take(
    location: Location,
    since: datetime.date | None = None,
    until: datetime.date | None = None,
    with_recordings: bool = True,
) -> Snapshot:
    """Lists and checks the files of a fleet. `since` and `until` choose days, both included."""
    snapshot = Snapshot(location)
    files = location.files()
    # Files of devices that `pack` made Parquet files of.
    packed: set[str] = set()
    for file in files:
        if file.path.startswith("packed/"):
            packed |= set(location.read(file.path, 1 << 30).decode().splitlines())
    is_wanted = lambda day: (since is None or day >= str(since)) and (until is None or day <= str(until))  # noqa: E731
    tables: list[tuple[str, File]] = []
    for file in files:
        if found := _TABLE_FILE.match(file.path):
            if is_wanted(found[2]):
                tables.append((found[1], file))
        elif found := _ARRIVED_FILE.match(file.path):
            if is_wanted(found[1]) and file.path not in packed:
                snapshot.arrived.append(file.path)
        elif _RESULT_FILE.match(file.path):
            if file.path not in packed:
                snapshot.documents.append(file.path)
        elif with_recordings and _META_FILE.match(file.path):
            snapshot.recordings.append(file.path.rsplit("/", 1)[0])
    _check(snapshot, tables)
    _read_arrived(snapshot)
    _read_recordings(snapshot, is_wanted)
    _add(
        snapshot,
        "results",
        [row for row in read_results(location, snapshot.documents, snapshot.problems) if is_wanted(str(row["day"]))],
    )
    if not snapshot.rows["days"] and not (snapshot.extra and snapshot.extra["days"].num_rows):
        told = "; ".join(snapshot.problems.texts())
        raise FleetError(
            f"{location.place} has no usable rows of devices{': ' + told if told else ''}; send some with "
            "`fonio watch send --to DIR`, or try `fonio fleet generate DIR`"
        )
    return snapshot


def _check(snapshot: Snapshot, tables: list[tuple[str, File]]) -> None:
    location = snapshot.location
    half_written = intake.Refused("half-written", "the Parquet file has no valid end, so it is not complete")

    def check(found: tuple[str, File]) -> tuple[int, set[str]] | intake.Refused:
        name, file = found

        def read() -> tuple[int, pa.Schema]:
            with location.fs.open_input_file(location.full(file.path)) as source:
                parquet = pq.ParquetFile(source)
                return parquet.metadata.num_rows, parquet.schema_arrow

        try:
            rows, schema = location.retried(f"read {file.path}", read)
        except (pa.ArrowInvalid, FileNotFoundError):
            return half_written
        except FleetError as error:
            if is_damaged(error.__cause__):
                return half_written
            raise
        version = (schema.metadata or {}).get(VERSION_KEY)
        if version is None or not version.isdigit():
            return intake.Refused("not-ours", "the Parquet file does not name a version of the schema")
        if int(version) > VERSION:
            return intake.Refused(
                "newer", f"its schema is newer than {VERSION}; update the package fonio on this machine"
            )
        for field_ in TABLES[name]:
            index = schema.get_field_index(field_.name)
            if (
                index >= 0
                and schema.field(index).type != field_.type
                and not pa.types.is_null(schema.field(index).type)
            ):
                return intake.Refused("wrong-type", f"the column {field_.name} has the type {schema.field(index).type}")
        return rows, set(schema.names)

    for (name, file), found in zip(tables, location.each(tables, check), strict=True):
        if isinstance(found, intake.Refused):
            snapshot.problems.add(found.code, found.sentence, file.path)
            continue
        rows, columns = found
        snapshot.files[name].append(file.path)
        snapshot.columns[name] |= columns
        snapshot.rows[name] += rows
        snapshot.file_bytes += file.size


def _read_arrived(snapshot: Snapshot) -> None:
    if not snapshot.arrived:
        return
    if len(snapshot.arrived) > ARRIVED_MAX:
        raise FleetError(
            f"{snapshot.location.place} has {len(snapshot.arrived):,} files of devices that are not packed; run "
            f"`fonio fleet pack {snapshot.location.place}` first"
        )
    snapshot.extra = read_arrived(snapshot.location, snapshot.arrived, snapshot.problems)


def read_arrived(
    location: Location, paths: list[str], problems: Problems, usable: list[str] | None = None
) -> dict[str, pa.Table]:
    """Reads files of devices as tables; counts the unusable ones in `problems`, and lists the others in `usable`."""

    found = list(zip(paths, location.each(paths, _reader(location, intake.BYTES_MAX)), strict=True))
    for path, data in found:
        if data is None:
            problems.add("too-large", f"it has more than {intake.BYTES_MAX >> 20} MiB", path)
    return intake.read_all([(path, data) for path, data in found if data is not None], problems, usable)


def _reader(location: Location, limit: int) -> Callable[[str], bytes | None]:
    """Returns a function that reads a file: `None` if the file is too large, and nothing if it has gone."""

    def read(path: str) -> bytes | None:
        try:
            return location.read(path, limit)
        except ValueError:
            return None
        except FileNotFoundError:
            return b""

    return read


def _read_recordings(snapshot: Snapshot, is_wanted: Callable[[str], bool]) -> None:
    rows = []
    for folder in snapshot.recordings:
        try:
            found = recordings.rows(snapshot.location, folder)
        except intake.Refused as refused:
            snapshot.problems.add(refused.code, refused.sentence, folder, unit="recordings")
            continue
        rows += [row for row in found if is_wanted(str(row["day"]))]
    _add(snapshot, "days", rows)


def _add(snapshot: Snapshot, name: str, rows: list[dict]) -> None:
    if rows:
        more = intake.to_table(name, rows)
        known = snapshot.extra.get(name)
        snapshot.extra[name] = more if known is None else pa.concat_tables([known, more])


def read_results(
    location: Location, paths: list[str], problems: Problems, usable: list[tuple[str, str]] | None = None
) -> list[dict]:
    """Returns the rows of documents of StoreBench; counts the unusable ones, and lists the others with their days."""
    rows: list[dict] = []
    for path, data in zip(paths, location.each(paths, _reader(location, storebench.BYTES_MAX)), strict=True):
        try:
            if data is None:
                raise intake.Refused("too-large-result", f"it has more than {storebench.BYTES_MAX >> 20} MiB")
            found = storebench.rows(data, path.split("/")[-2])
            # Checked for each document, so that one wrong value does not cost the other documents.
            intake.to_table("results", found)
        except intake.Refused as refused:
            problems.add(refused.code, refused.sentence, path, unit="results")
            continue
        if usable is not None and found:
            usable.append((str(found[0]["day"]), path))
        rows += found
    return rows
