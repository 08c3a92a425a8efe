"""The engines that run the SQL files of a fleet: DuckDB on one machine, Spark beyond it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from typing import Protocol

import pyarrow as pa

from ..store import Location

_PLACE = re.compile(r"\$([a-z_]+)")


class Engine(Protocol):
    """Runs SQL over the tables of a fleet."""

    #: The name and version of the engine, for the report.
    name: str

    #: How many weeks of rows the engine adds up at a time; `None` for all. Fewer weeks need less memory.
    weeks_at_once: int | None

    def table(self, name: str, location: Location, files: list[str], columns: set[str], extra: pa.Table | None) -> None:
        """Defines `NAME_raw` from Parquet files, all of which together have `columns`, and from rows in memory."""

    def define_parts(self, name: str, parts: list[str]) -> None:
        """Computes a table as the rows of several queries, one after the other."""

    def define(self, name: str, sql: str, keep: bool) -> None:
        """Defines a table by a query. `keep` computes it once; otherwise each use computes it."""

    def rows(self, sql: str) -> list[dict]:
        """Runs a query and returns its rows."""

    def each(self, sql: str) -> Iterator[dict]:
        """Runs a query and returns its rows one after the other; the next query ends it."""

    def close(self) -> None:
        """Frees the tables and temporary files."""


def text(value: str) -> str:
    """Returns a text as an SQL literal that DuckDB and Spark read equally."""
    # Spark reads a backslash in a literal as an escape, and DuckDB does not.
    if "\\" in value or "'" in value:
        parts = re.split(r"([\\'])", value)
        pieces = [f"'{part}'" if part not in "\\'" else f"chr({ord(part)})" for part in parts if part]
        return f"concat({', '.join(pieces)})"
    return f"'{value}'"


def query(name: str, **values: object) -> str:
    """Returns the SQL of a file in `sql/`, with values for its `$names`."""
    sql = resources.files("fonio.fleet").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    sql = "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--"))
    return _PLACE.sub(lambda found: str(values[found[1]]), sql)
