"""The tables of a fleet: their columns, their types, and the versions of their schema.

A fleet is a folder with four tables. Each row belongs to one device and one day (UTC).

The rules of versions: a column can be added without a new version, and a file without this column has unknown values
(null) in it. A new version is needed if a column changes its meaning, type or name; then `conformed` turns the columns
of the older versions into the present ones. `migrate` writes all rows of a fleet with the present columns.
"""

from __future__ import annotations

import pyarrow as pa

#: The version of the schema that this package reads and writes.
VERSION = 1
#: The key of the version in the metadata of a Parquet file.
VERSION_KEY = b"fonio.fleet.schema"

_CLASSES = pa.list_(pa.int64())


def _table(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    fields = [pa.field("device", pa.string()), pa.field("day", pa.date32()), *(pa.field(*column) for column in columns)]
    return pa.schema(fields, metadata={VERSION_KEY: str(VERSION).encode()})


#: One row for each device, day and disk.
DAYS = _table(
    ("source", pa.string()),
    ("writer", pa.string()),
    ("model", pa.string()),
    ("kernel", pa.string()),
    ("os", pa.string()),
    ("disk", pa.string()),
    ("disk_kind", pa.string()),
    ("disk_model", pa.string()),
    ("disk_firmware", pa.string()),
    ("disk_made", pa.string()),
    ("disk_bytes", pa.int64()),
    ("watched_s", pa.int64()),
    ("limited_s", pa.int64()),
    ("unobserved", pa.int64()),
    ("reads", pa.int64()),
    ("read_us", pa.int64()),
    ("slow_reads", pa.int64()),
    ("read_classes", _CLASSES),
    ("writes", pa.int64()),
    ("write_us", pa.int64()),
    ("slow_writes", pa.int64()),
    ("write_classes", _CLASSES),
    ("flushes", pa.int64()),
    ("flush_us", pa.int64()),
    ("slow_flushes", pa.int64()),
    ("flush_classes", _CLASSES),
    ("read_bytes", pa.int64()),
    ("written_bytes", pa.int64()),
    ("busy_ms", pa.int64()),
    ("stalls", pa.int64()),
    ("stalled_ms", pa.int64()),
    ("life_used_percent", pa.int32()),
    ("reserved_blocks", pa.string()),
)

#: One row for each device, day, disk and unit that used the disk.
UNITS = _table(
    ("disk", pa.string()),
    ("unit", pa.string()),
    ("written_bytes", pa.int64()),
    ("read_bytes", pa.int64()),
    ("blocked_us", pa.int64()),
)

#: One row for each device, day, disk, blocked unit and cause of stalls.
STALLS = _table(
    ("disk", pa.string()),
    ("unit", pa.string()),
    ("cause", pa.string()),
    ("culprit", pa.string()),
    ("stalls", pa.int64()),
    ("stalled_ms", pa.int64()),
    ("longest_ms", pa.int64()),
)

#: One row for each result of StoreBench and figure.
RESULTS = _table(
    ("began_s", pa.int64()),
    ("writer", pa.string()),
    ("engine", pa.string()),
    ("comparison", pa.string()),
    ("model", pa.string()),
    ("kernel", pa.string()),
    ("os", pa.string()),
    ("disk_kind", pa.string()),
    ("disk_model", pa.string()),
    ("disk_firmware", pa.string()),
    ("disk_made", pa.string()),
    ("disk_bytes", pa.int64()),
    ("figure", pa.string()),
    ("unit", pa.string()),
    ("value", pa.float64()),
    ("least", pa.float64()),
    ("most", pa.float64()),
    ("runs", pa.int32()),
)

TABLES: dict[str, pa.Schema] = {"days": DAYS, "units": UNITS, "stalls": STALLS, "results": RESULTS}

#: The columns that identify a row: later rows with the same values are duplicates.
KEYS: dict[str, tuple[str, ...]] = {
    "days": ("device", "day", "disk"),
    "units": ("device", "day", "disk", "unit"),
    "stalls": ("device", "day", "disk", "unit", "cause", "culprit"),
    "results": ("device", "day", "began_s", "figure"),
}


def conformed(name: str, table: pa.Table) -> pa.Table:
    """Returns the rows of a table with the present columns. Columns that the table does not have are unknown (null)."""
    schema = TABLES[name]
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


#: Upper ends of the classes of response times: class k ends at 2**k microseconds, and the last class has no end.
CLASSES = 32
#: A request is slow from the beginning of this class: 2**17 microseconds (131 ms).
SLOW_CLASS = 18
