"""Spark: for fleets beyond one machine.

`spark-submit` runs the same package with the same SQL files. The Spark session is the one of `spark-submit`, or a new
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from ..problems import FleetError
from ..schema import TABLES
from ..store import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TYPES = {
    pa.string(): "STRING",
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.date32(): "DATE",
    pa.float64(): "DOUBLE",
    pa.list_(pa.int64()): "ARRAY<BIGINT>",
}


class Spark:
    """Runs the SQL files in Spark."""

    weeks_at_once: int | None = None

    def __init__(self, session: SparkSession | None = None) -> None:
        try:
            import pyspark
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise FleetError(
                "the engine Spark needs PySpark: run the report with spark-submit, or `pip install pyspark`"
            ) from error
        self._own = session is None
        self._session = session or SparkSession.builder.appName("fonio fleet").getOrCreate()
        self._session.conf.set("spark.sql.session.timeZone", "UTC")
        self._cached: list[str] = []
        self.name = f"Spark {pyspark.__version__}"

    def table(self, name: str, location: Location, files: list[str], columns: set[str], extra: pa.Table | None) -> None:
        """Defines `NAME_raw` from Parquet files and from rows in memory."""
        schema = TABLES[name]
        declared = ", ".join(f"`{field.name}` {_TYPES[field.type]}" for field in schema)
        frames = []
        if files:
            reader = self._session.read.schema(declared).option("recursiveFileLookup", "true")
            frames.append(reader.parquet(*[_address(location, file) for file in files]))
        if extra is not None and extra.num_rows:
            # As an Arrow table: rows of Python objects would need Python on the executors.
            # In one piece, because PySpark 4.3 loses the rows of a table that begins with empty pieces.
            frames.append(self._session.createDataFrame(extra.select(schema.names).combine_chunks()))
        frame = frames[0] if frames else self._session.createDataFrame([], declared)
        for more in frames[1:]:
            frame = frame.unionByName(more)
        frame.selectExpr("*", "unix_date(day) AS day_number").createOrReplaceTempView(f"{name}_raw")

    def define_parts(self, name: str, parts: list[str]) -> None:
        # `weeks_at_once` asks for one part.
        (sql,) = parts
        self.define(name, sql, keep=True)

    def define(self, name: str, sql: str, keep: bool) -> None:
        self._session.sql(sql).createOrReplaceTempView(name)
        if keep:
            self._session.sql(f"CACHE TABLE {name} OPTIONS ('storageLevel' 'MEMORY_AND_DISK')")
            self._cached.append(name)

    def rows(self, sql: str) -> list[dict]:
        return [row.asDict() for row in self._session.sql(sql).collect()]

    def each(self, sql: str) -> Iterator[dict]:
        return (row.asDict() for row in self._session.sql(sql).toLocalIterator())

    def close(self) -> None:
        for name in self._cached:
            self._session.sql(f"UNCACHE TABLE IF EXISTS {name}")
        if self._own:
            self._session.stop()


def _address(location: Location, file: str) -> str:
    if location.is_local:
        return f"file://{location.full(file)}"
    scheme = location.place.split("://", 1)[0]
    # Hadoop's client of S3 has its own name for the scheme.
    return f"{'s3a' if scheme == 's3' else scheme}://{location.full(file)}"
