"""Reports: the verdict, the findings and the figures of a recording."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fonio import _fonio


@dataclass(frozen=True)
class Figure:
    """A number of an analysis (`docs/figures.md`)."""

    name: str
    """The stable name, such as `latency.reads.response.p99`."""
    label: str
    """The label for people."""
    unit: str
    """The unit of the value, such as `ns`, `bytes` or `share`."""
    better: str | None
    """`lower` or `higher`, if one direction is better."""
    value: float | None
    """The value; None if the recording does not show it."""
    text: str
    """The value with its unit, for people."""

    def __str__(self) -> str:
        return f"{self.label}: {self.text}"


class Figures(Mapping[str, Figure]):
    """The figures of a report by name. An unknown name raises a `KeyError` with similar names."""

    def __init__(self, figures: Sequence[Figure]) -> None:
        self._figures = {figure.name: figure for figure in figures}

    def __getitem__(self, name: str) -> Figure:
        if name in self._figures:
            return self._figures[name]
        import difflib

        near = difflib.get_close_matches(name, self._figures, n=3)
        similar = f"; similar names are {', '.join(near)}" if near else ""
        raise KeyError(f"there is no figure {name}{similar}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def rows(self) -> list[dict[str, Any]]:
        """The figures as rows, for `pandas.DataFrame` or `polars.DataFrame`."""
        return [dict(vars(figure)) for figure in self._figures.values()]


@dataclass(frozen=True)
class Finding:
    """A statement of a report with its evidence. Findings are sorted by importance."""

    id: str
    """The name of the rule."""
    rank: int
    """1 is the most important finding."""
    severity: str
    """`note`, `low`, `medium`, `high` or `critical`."""
    sentence: str
    """The fact with its numbers."""
    consequence: str
    """What the fact costs."""
    evidence: tuple[Figure, ...]
    """The figures on which the finding rests."""
    fixes: tuple[str, ...]
    """Possible fixes, one sentence each."""
    command: str | None
    """The first command among the fixes."""
    source: str
    """The source of the rule: the section of a paper, or `ours`."""

    def __str__(self) -> str:
        return self.sentence


def _figure(row: dict[str, Any]) -> Figure:
    return Figure(
        name=row["name"],
        label=row["label"],
        unit=row["unit"],
        better=row.get("better"),
        value=row.get("value"),
        text=row["text"],
    )


def _finding(row: dict[str, Any]) -> Finding:
    return Finding(
        id=row["id"],
        rank=row["rank"],
        severity=row["severity"],
        sentence=row["sentence"],
        consequence=row["consequence"],
        evidence=tuple(_figure(figure) for figure in row["evidence"]),
        fixes=tuple(row["fixes"]),
        command=row.get("command"),
        source=row["source"],
    )


class Report:
    """The report on a recording or trace, the same as that of `fonio report`."""

    def __init__(self, native: _fonio.Explained) -> None:
        self._native = native
        self._json = native.json()
        self._document: dict[str, Any] = json.loads(self._json)

    @property
    def name(self) -> str:
        """The name of the recording."""
        return self._native.name

    @property
    def meta(self) -> dict[str, Any]:
        """The metadata of the recording."""
        return json.loads(self._native.meta())

    @property
    def verdict(self) -> str:
        """The report in one sentence."""
        return self._document["verdict"]

    @property
    def is_valid(self) -> bool:
        """Whether the figures can be trusted; `analysis["validity"]` has the reasons."""
        return self._document["analysis"]["validity"]["ok"]

    @property
    def figures(self) -> Figures:
        """The figures by name."""
        return Figures([_figure(row) for row in self._document["figures"]])

    @property
    def findings(self) -> list[Finding]:
        """The findings, the most important one first."""
        return [_finding(row) for row in self.analysis["findings"]]

    @property
    def analysis(self) -> dict[str, Any]:
        """The complete analysis; `docs/report.schema.json` describes it."""
        return self._document["analysis"]

    def json(self) -> str:
        """The report as one line of JSON, as `fonio report --json` prints it."""
        return self._json

    def text(self) -> str:
        """The report as text, as `fonio report --all` prints it."""
        return self._native.text()

    def html(self) -> str:
        """The report as an HTML page that needs no other files."""
        return self._native.html()

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as an HTML page."""
        pathlib.Path(path).write_text(self.html(), encoding="utf-8")

    def __repr__(self) -> str:
        return f"<fonio.Report {self.name!r}: {self.verdict}>"


def analyse(requests: object, name: str = "requests") -> Report:
    """Analyses a table of requests: of a simulation, or of any tool with the Arrow interface.

    The table needs the columns `op` and `bytes`. It should have `queued_ns`, `issued_ns`, `completed_ns`, `sector` and
    `tid`, as in the table `requests` of a recording; each missing column leaves figures unknown. The rows are sorted in
    memory.
    """
    return Report(_fonio.analyse_requests(name, requests))
