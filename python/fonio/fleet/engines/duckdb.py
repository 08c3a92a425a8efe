"""DuckDB: the default engine, inside this process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds

from ..problems import FleetError
from ..schema import TABLES
from ..store import Location

if TYPE_CHECKING:
    import duckdb

Result = TypeVar("Result")

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
        #: The object store from which Arrow reads files.
        self._store: Location | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="fonio-fleet-")
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": memory,
            "temp_directory": self._folder.name,
            "preserve_insertion_order": "false",
        }
        if threads:
            settings["threads"] = str(threads)
        self._connection = duckdb.connect(f"{self._folder.name}/fleet.duckdb", config=settings)
        self._connection.execute("SET TimeZone = 'UTC'")
        # The database is removed at the end, so its last changes need not be written.
        self._connection.execute("PRAGMA disable_checkpoint_on_shutdown")
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
            f"CREATE TEMP VIEW {name}_raw AS "
            f"SELECT *, CAST(day - DATE '1970-01-01' AS INTEGER) AS day_number FROM ({union})"
        )

    def _files(self, name: str, location: Location, files: list[str], columns: set[str]) -> str:
        schema = TABLES[name]
        if location.is_local:
            # DuckDB's own reader is faster than Arrow's. A column that no file has is unknown.
            listed = ", ".join("'" + location.full(file).replace("'", "''") + "'" for file in files)
            chosen = ", ".join(name if name in columns else f"NULL AS {name}" for name in schema.names)
            return f"SELECT {chosen} FROM read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
        self._store = location
        dataset = ds.dataset(
            [location.full(file) for file in files], schema=schema, format="parquet", filesystem=location.patient
        )
        self._connection.register(f"{name}_files", dataset)
        return f"SELECT {', '.join(schema.names)} FROM {name}_files"

    def define_parts(self, name: str, parts: list[str]) -> None:
        for number, sql in enumerate(parts):
            self._run(f"CREATE TABLE {name} AS {sql}" if number == 0 else f"INSERT INTO {name} {sql}")

    def define(self, name: str, sql: str, keep: bool) -> None:
        self._run(f"CREATE {'TABLE' if keep else 'TEMP VIEW'} {name} AS {sql}")

    def rows(self, sql: str) -> list[dict]:
        def read() -> list[dict]:
            result = self._connection.execute(sql)
            names = [column[0] for column in result.description]
            return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

        return self._guarded(read)

    def each(self, sql: str) -> Iterator[dict]:
        result = self._run(sql)
        names = [column[0] for column in result.description]
        while some := self._guarded(lambda: result.fetchmany(4096)):
            yield from (dict(zip(names, row, strict=True)) for row in some)

    def export(self, path: str, queries: dict[str, str], tables: dict[str, pa.Table]) -> None:
        """Writes the rows of queries, and tables in memory, to a new database."""
        quoted = path.replace("'", "''")
        self._run(f"ATTACH '{quoted}' AS exported")
        for name, sql in queries.items():
            self._run(f"CREATE TABLE exported.{name} AS {sql}")
        for name, table in tables.items():
            self._connection.register(f"{name}_exported", table)
            self._run(f"CREATE TABLE exported.{name} AS SELECT * FROM {name}_exported")
        # The rest of the changes is in a log until now.
        self._run("CHECKPOINT exported")
        self._run("DETACH exported")

    def _run(self, sql: str) -> duckdb.DuckDBPyConnection:
        return self._guarded(lambda: self._connection.execute(sql))

    def _guarded(self, action: Callable[[], Result]) -> Result:
        """Runs an action; repeats it while the store from which it reads is busy."""

        def run() -> Result:
            try:
                return action()
            except self._errors as error:
                if self._store is not None and "IOError" in str(error):
                    raise OSError(str(error)) from error
                raise FleetError(f"DuckDB cannot run a query of the fleet: {str(error).splitlines()[0]}") from error

        return run() if self._store is None else self._store.retried("read files", run)

    def close(self) -> None:
        self._connection.close()
        self._folder.cleanup()
