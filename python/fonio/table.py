"""Tables that other libraries read through the Arrow interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow

    from fonio import _fonio


class Table:
    """A table that is read when it is used, in batches, without a copy in fonio.

    Each use reads the table from its start. Any library with the Arrow PyCapsule interface accepts a `Table`:
    `pyarrow.table(table)`, `polars.DataFrame(table)`, or `duckdb.sql("FROM table")` for a variable `table`.
    """

    def __init__(self, name: str, stream: _fonio.Stream, rows: int | None = None) -> None:
        self.name = name
        """The name of the table."""
        self.rows = rows
        """The number of rows; None if it is known only after the table has been read."""
        self._stream = stream

    @property
    def columns(self) -> dict[str, str]:
        """The columns with their Arrow types."""
        return dict(self._stream.columns())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._stream.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pyarrow.Table:
        """Returns the table for pyarrow. The complete table is in memory."""
        import pyarrow

        return pyarrow.table(self)

    def batches(self) -> pyarrow.RecordBatchReader:
        """Returns the batches for pyarrow. Only one batch at a time needs memory."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns the table for pandas, with Arrow's types, so that integers with nulls stay integers."""
        import pandas

        # Conversion through Arrow's types needs no copy.
        return self.to_arrow().to_pandas(types_mapper=pandas.ArrowDtype)

    def to_polars(self) -> polars.DataFrame:
        """Returns the table for Polars."""
        import polars

        return polars.DataFrame(self)

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Returns the table as a relation of DuckDB, which reads it in batches each time it is used."""
        import duckdb

        return (connection or duckdb.default_connection()).from_arrow(self)

    def __repr__(self) -> str:
        rows = "" if self.rows is None else f", {self.rows} rows"
        return f"<fonio.Table {self.name}: {len(self.columns)} columns{rows}>"
