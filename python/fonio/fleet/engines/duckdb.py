"""DuckDB: the default engine, inside this process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds

from ..problems import FleetError
from ..schema import TABLES
from ..store import Location

if TYPE_CHECKING:
    import duckdb

#: Memory of DuckDB. Larger intermediate tables go to a temporary folder.
MEMORY = "1GB"


class DuckDb:
    """Runs the SQL files in DuckDB."""

    weeks_at_once: int | None = 8

    def __init__(self, memory: str = MEMORY, threads: int | None = None) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise FleetError("reports need DuckDB: run `pip install duckdb`") from error
        self._errors = duckdb.Error
        self._folder = tempfile.TemporaryDirectory(prefix="fonio-fleet-")
        settings: dict[str, str | bool | int | float | list[str]] = {"memory_limit": memory, "temp_directory": self._folder.name, "preserve_insertion_order": "false"}
        if threads:
            settings["threads"] = str(threads)
        self._connection = duckdb.connect(f"{self._folder.name}/fleet.duckdb", config=settings)
        self._connection.execute("SET TimeZone = 'UTC'")
        self.name = f"DuckDB {duckdb.__version__}"

    def table(self, name: str, location: Location, files: list[str], columns: set[str], extra: pa.Table | None) -> None:
        """Defines `NAME_raw` from Parquet files, all of which together have `columns`, and from rows in memory."""
        schema = TABLES[name]
        parts = []
        if files:
            parts.append(self._files(name, location, files, columns))
        if extra is not None and extra.num_rows:
            self._connection.register(f"{name}_extra", extra)
            parts.append(f"SELECT {', '.join(schema.names)} FROM {name}_extra")
        if not parts:
            self._connection.register(f"{name}_extra", schema.empty_table())
            parts.append(f"SELECT {', '.join(schema.names)} FROM {name}_extra")
        union = " UNION ALL ".join(parts)
        self._connection.execute(
            f"CREATE TEMP VIEW {name}_raw AS SELECT *, CAST(day - DATE '1970-01-01' AS INTEGER) AS day_number FROM ({union})"
        )

    def _files(self, name: str, location: Location, files: list[str], columns: set[str]) -> str:
        schema = TABLES[name]
        if location.is_local:
            # DuckDB's own reader is faster than Arrow's. A column that no file has is unknown.
            listed = ", ".join("'" + location.full(file).replace("'", "''") + "'" for file in files)
            chosen = ", ".join(name if name in columns else f"NULL AS {name}" for name in schema.names)
            return f"SELECT {chosen} FROM read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
        dataset = ds.dataset(
            [location.full(file) for file in files], schema=schema, format="parquet", filesystem=location.fs
        )
        self._connection.register(f"{name}_files", dataset)
        return f"SELECT {', '.join(schema.names)} FROM {name}_files"

    def define_parts(self, name: str, parts: list[str]) -> None:
        for number, sql in enumerate(parts):
            self._run(f"CREATE TABLE {name} AS {sql}" if number == 0 else f"INSERT INTO {name} {sql}")

    def define(self, name: str, sql: str, keep: bool) -> None:
        self._run(f"CREATE {'TABLE' if keep else 'TEMP VIEW'} {name} AS {sql}")

    def rows(self, sql: str) -> list[dict]:
        result = self._run(sql)
        names = [column[0] for column in result.description]
        return [dict(zip(names, row)) for row in result.fetchall()]

    def each(self, sql: str) -> Iterator[dict]:
        result = self._run(sql)
        names = [column[0] for column in result.description]
        while some := result.fetchmany(4096):
            yield from (dict(zip(names, row)) for row in some)

    def _run(self, sql: str) -> duckdb.DuckDBPyConnection:
        try:
            return self._connection.execute(sql)
        except self._errors as error:
            raise FleetError(f"DuckDB cannot run a query of the fleet: {str(error).splitlines()[0]}") from error

    def close(self) -> None:
        self._connection.close()
        self._folder.cleanup()
