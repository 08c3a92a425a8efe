"""Comparisons of recordings."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fonio import _fonio
from fonio.recording import Recording, open
from fonio.report import Report

Input: TypeAlias = Recording | Report | str | os.PathLike[str]
Side: TypeAlias = Input | Sequence[Input]


@dataclass(frozen=True)
class Change:
    """How a figure differs between the first side of a comparison and another side."""

    figure: str
    """The name of the figure."""
    label: str
    """The label for people."""
    unit: str
    """The unit of the values."""
    better: str | None
    """`lower` or `higher`, if one direction is better."""
    side: str
    """The name of the side that is compared with the first side."""
    values: tuple[float | None, float | None]
    """The value of the first side and of this side."""
    answer: str
    """`lower`, `higher`, `no_difference` or `unknown`."""
    ratio: float | None
    """This side's value divided by the first side's, if known."""
    details: dict[str, Any]
    """The interval and the reason of an unknown answer, as in `fonio compare --json`."""


class Comparison:
    """The comparison of recordings, the same as that of `fonio compare`."""

    def __init__(self, text: str) -> None:
        self._json = text
        self._document: dict[str, Any] = json.loads(text)

    @property
    def sides(self) -> list[str]:
        """The names of the sides."""
        return [side["name"] for side in self._document["comparison"]["sides"]]

    @property
    def method(self) -> str:
        """How the intervals were computed."""
        return self._document["comparison"]["method"]

    @property
    def changes(self) -> list[Change]:
        """All changes from the first side to the others."""
        found = []
        sides = self.sides
        for row in self._document["comparison"]["rows"]:
            for at, change in enumerate(row["changes"], start=1):
                found.append(
                    Change(
                        figure=row["figure"],
                        label=row["label"],
                        unit=row["unit"],
                        better=row.get("better"),
                        side=sides[at],
                        values=(row["values"][0], row["values"][at]),
                        answer=change["answer"],
                        ratio=change.get("ratio"),
                        details=change,
                    )
                )
        return found

    @property
    def differences(self) -> list[Change]:
        """The changes for which a difference was shown."""
        return [change for change in self.changes if change.answer in ("lower", "higher")]

    def json(self) -> str:
        """The comparison as one line of JSON, as `fonio compare --json` prints it."""
        return self._json

    def __repr__(self) -> str:
        return f"<fonio.Comparison of {', '.join(self.sides)}: {len(self.differences)} differences>"


def compare(before: Side, *after: Side) -> Comparison:
    """Compares recordings: `compare(a, b)`, or several recordings on each side: `compare([a1, a2, a3], [b1, b2, b3])`.

    A side is a recording, a report or a path, or a list of them. One recording on a side shows how it varies over time,
    but not how runs differ; give at least three on each side to show that a change is the cause (`docs/compare.md`).
    """
    names = ["before", "after"] if len(after) == 1 else ["before", *(f"after {n + 1}" for n in range(len(after)))]
    sides = [(name, _reports(side)) for name, side in zip(names, [before, *after], strict=True)]
    return Comparison(_fonio.compare(sides))


def _reports(side: Side) -> list[_fonio.Explained]:
    inputs = side if isinstance(side, Sequence) and not isinstance(side, str) else [side]
    found = []
    for one in inputs:
        if isinstance(one, Report):
            report = one
        elif isinstance(one, Recording):
            report = one.report()
        else:
            report = open(one).report()
        found.append(report._native)
    return found
