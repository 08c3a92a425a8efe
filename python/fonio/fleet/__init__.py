"""Answers over a fleet: thousands of devices that send what `fonio watch` keeps.

    import fonio.fleet
    report = fonio.fleet.report("/srv/fleet")          # or "s3://bucket/fleet"
    for culprit in report.culprits:
        print(fonio.fleet.sentence(culprit))

The package is pure Python and needs duckdb, pyarrow and numpy (`pip install duckdb pyarrow numpy fsspec`).
docs/fleet.md describes the tables, the rules, and how devices send.
"""

from __future__ import annotations

import datetime
from typing import Any

from .answers import Culprit, Report
from .problems import FleetError

__all__ = ["FleetError", "Report", "generate", "migrate", "pack", "report", "send", "sentence"]


def report(
    place: str,
    *,
    engine: str = "duckdb",
    since: datetime.date | None = None,
    until: datetime.date | None = None,
    today: datetime.date | None = None,
    weeks: int = 4,
    memory: str = "1GB",
    endpoint: str | None = None,
    database: str | None = None,
) -> Report:
    """Returns the answers over a folder or an object store.

    `engine` is `duckdb` or `spark`. `since` and `until` choose days (both included), `weeks` is the length of the
    window at the end of the data for which devices are compared, `today` decides which days are in the future, `memory`
    limits DuckDB, `endpoint` is the address of a store that speaks S3, and `database` is a DuckDB database to write for
    dashboards. Raises `FleetError` with a sentence for the user.
    """
    from . import database as exported
    from . import table
    from .engines import Engine
    from .engines.duckdb import DuckDb
    from .questions import answer
    from .store import Location

    if database is not None:
        if engine != "duckdb":
            raise FleetError("a database for dashboards needs the engine duckdb")
        exported.check(database)
    location = Location(place, {"endpoint": endpoint} if endpoint else None)
    snapshot = table.take(location, since, until)
    runs: Engine
    if engine == "spark":
        from .engines.spark import Spark

        runs = Spark()
    elif engine == "duckdb":
        runs = DuckDb(memory)
    else:
        raise FleetError(f"there is no engine {engine}; use duckdb or spark")
    try:
        found = answer(snapshot, runs, today or datetime.datetime.now(datetime.timezone.utc).date(), weeks)
        if database is not None and isinstance(runs, DuckDb):
            exported.write(database, found, runs)
        return found
    finally:
        runs.close()


def sentence(culprit: Culprit) -> str:
    """Returns a culprit as a sentence with its numbers."""
    from .text import sentence as told

    return told(culprit)


def generate(place: str, **plan: Any) -> None:
    """Writes a generated fleet; the arguments are those of `fonio.fleet.generator.Plan`."""
    from .generator import Plan
    from .generator import generate as run
    from .store import Location

    run(Plan(**plan), Location(place))


def pack(place: str) -> str:
    """Makes Parquet files of the files that devices sent. Returns sentences on what was done."""
    from .packing import pack as run
    from .store import Location

    location = Location(place)
    return run(location, location)


def migrate(place: str, to: str) -> str:
    """Writes all rows of a fleet to a new location, with the present columns. Returns sentences on what was done."""
    from .packing import migrate as run
    from .store import Location

    return run(Location(place), Location(to))


def send(folder: str, to: str) -> str:
    """Copies files of devices from a folder to another location, with retries. Returns a sentence on what was done."""
    from .packing import send as run
    from .store import Location

    return run(Location(folder), Location(to))
