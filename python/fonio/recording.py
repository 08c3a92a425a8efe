"""Opens recordings, traces and kept stalls."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from fonio import _fonio
from fonio.report import Report
from fonio.table import Table

Path = str | os.PathLike[str]


def open(  # noqa: A001
    path: Path | Sequence[Path],
    *,
    format: str | None = None,  # noqa: A002
    csv: str | None = None,
    horizon_s: float | None = None,
) -> Recording:
    """Opens a recording of fonio, a kept stall of a watch, or a trace of another program.

    `path` is a recording, a file, or the list of the files of one trace. The other arguments apply to traces: `format`
    if fonio does not recognise the format, `csv` for the columns of a table (`docs/traces.md`), and `horizon_s`, the
    seconds after which a request counts as never completed (600 by default).

    Raises `FonioError` if the path is not an input of fonio, or if it is damaged.
    """
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    horizon_ns = None if horizon_s is None else round(horizon_s * 1e9)
    names = [os.fspath(path) for path in paths]
    return Recording(_fonio.Input(names, format=format, csv=csv, horizon_ns=horizon_ns))


class Recording:
    """An opened recording, trace or kept stall. Nothing is read until it is needed."""

    def __init__(self, native: _fonio.Input) -> None:
        self._native = native
        self._report: Report | None = None

    @property
    def name(self) -> str:
        """The name in reports: the path."""
        return self._native.name

    @property
    def kind(self) -> str:
        """`recording`, `stall` (kept by a watch) or `trace` (of another program)."""
        return self._native.kind

    @property
    def meta(self) -> dict[str, Any]:
        """The metadata, as in `meta.json` of a recording. For a trace, this reads the complete trace."""
        text = self._native.meta()
        return self.report().meta if text is None else json.loads(text)

    @property
    def tables(self) -> list[str]:
        """The names of the tables (`docs/recording-reference.md`). A table that was not recorded is empty."""
        return [name for name, _ in self._native.tables()]

    def table(self, name: str) -> Table:
        """Returns a table. Raises `ValueError` with the nearest name if there is no table of this name."""
        stream = self._native.table(name)
        return Table(name, stream, dict(self._native.tables())[name])

    def __getattr__(self, name: str) -> Table:
        # `recording.requests` is short for `recording.table("requests")`.
        if not name.startswith("_") and name in self.tables:
            return self.table(name)
        raise AttributeError(f"a recording has no attribute {name!r}; its tables are {', '.join(self.tables)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.tables]

    def report(
        self,
        *,
        devices: Sequence[str] = (),
        processes: Sequence[str] = (),
        tids: Sequence[int] = (),
        units: Sequence[str] = (),
        files: Sequence[str] = (),
        ops: Sequence[str] = (),
        since_s: float | None = None,
        until_s: float | None = None,
    ) -> Report:
        """Analyses the input, as `fonio report` does, and returns the report.

        The arguments select a part of the I/O, like the filters of `fonio report`: `devices` as `major:minor`, names of
        `processes` or threads, thread ids `tids`, `units`, `files`, `ops`, and a range of seconds since the start.
        Memory is bounded for inputs of any size. The report without filters is kept, so a second call is free.
        """
        lists = (devices, processes, tids, units, files, ops)
        if any(isinstance(names, str) for names in lists):
            raise TypeError("devices, processes, units, files and ops are lists of names, such as ['sqlite3']")
        is_complete = not any(lists) and since_s is None and until_s is None
        if is_complete and self._report is not None:
            return self._report
        explained = self._native.explain(
            devices=list(devices),
            comms=list(processes),
            tids=list(tids),
            units=list(units),
            files=list(files),
            ops=list(ops),
            from_ns=None if since_s is None else round(since_s * 1e9),
            until_ns=None if until_s is None else round(until_s * 1e9),
        )
        report = Report(explained)
        if is_complete:
            self._report = report
        return report

    def __repr__(self) -> str:
        return f"<fonio.Recording {self.name!r} ({self.kind})>"
