"""Fleets for the tests."""

from __future__ import annotations

import datetime
import gzip
import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import fonio.fleet
from fonio.fleet.generator import Plan, generate
from fonio.fleet.schema import TABLES
from fonio.fleet.store import Location

TODAY = datetime.date(2026, 1, 31)
REPOSITORY = Path(__file__).resolve().parents[3]


def pytest_collection_modifyitems(items):
    """Skips tests that take minutes, unless FONIO_LONG_TESTS asks for them."""
    for item in items:
        if "long" in item.keywords and not os.environ.get("FONIO_LONG_TESTS"):
            item.add_marker(pytest.mark.skip(reason="FONIO_LONG_TESTS enables tests that take minutes"))


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes")


def made(folder: Path, **plan) -> Path:
    """Generates a fleet in a folder."""
    generate(Plan(**plan), Location(str(folder)))
    return folder


@pytest.fixture(scope="session")
def faulty(tmp_path_factory) -> Path:
    """A fleet with all planted faults."""
    return made(tmp_path_factory.mktemp("faulty"), devices=1500, days=126, seed=11)


@pytest.fixture
def small(tmp_path) -> Path:
    """A small fleet without faults, for tests of damaged data."""
    return made(tmp_path / "small", devices=30, days=10, seed=3, faults=())


def report(place, **options):
    """Returns the report of a place, on a fixed day."""
    return fonio.fleet.report(str(place), today=TODAY, **options)


def rows(place: Path, table: str, day: str):
    """Returns the rows of a table and day of a generated fleet."""
    return pq.read_table(place / table / day / "part-000.parquet").to_pylist()


def write_rows(place: Path, table: str, day: str, name: str, new: list[dict]) -> None:
    """Adds a Parquet file with rows."""
    import pyarrow as pa

    pq.write_table(pa.Table.from_pylist(new, schema=TABLES[table]), place / table / day / name)


def device_file(
    place: Path, device: str, day: str, lines: list[dict] | None = None, cut: int | None = None, **head
) -> Path:
    """Writes the file of a device and day as `fonio watch send` does; `cut` bytes of the text are kept."""
    disk = {
        "kind": "disk",
        "disk": "mmcblk0",
        "disk_model": "EM32",
        "watched_s": 86_400,
        "reads": 1000,
        "read_us": 500_000,
        "slow_reads": 0,
        "writes": 1000,
        "write_us": 900_000,
        "slow_writes": 0,
        "flushes": 10,
        "flush_us": 10_000,
        "slow_flushes": 0,
        "read_bytes": 1 << 20,
        "written_bytes": 1 << 22,
        "busy_ms": 1000,
        "stalls": 0,
        "stalled_ms": 0,
    }
    body = [
        {"kind": "device", "schema": 1, "device": device, "day": day, "model": "pi-4", **head},
        *(lines if lines is not None else [disk]),
    ]
    text = "".join(json.dumps(line) + "\n" for line in [*body, {"kind": "end", "lines": len(body) + 1}])
    path = place / "arrived" / day / f"{device}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()[:cut]))
    return path
