"""What was wrong with the data of a fleet: counted, with an example, and left out."""

from __future__ import annotations

from dataclasses import dataclass, field


class FleetError(Exception):
    """An error for the user: one sentence that names the place and the way out."""


@dataclass
class Problem:
    """One kind of problem."""

    sentence: str
    count: int = 0
    unit: str = "files"
    example: str = ""

    def text(self) -> str:
        """Returns the problem as a sentence with its number and an example."""
        unit = self.unit.removesuffix("s") if self.count == 1 else self.unit
        example = f", such as {self.example}" if self.example else ""
        return f"{self.count:,} {unit} left out: {self.sentence}{example}"


@dataclass
class Problems:
    """All problems of one reading, by kind."""

    found: dict[str, Problem] = field(default_factory=dict)

    def add(self, code: str, sentence: str, example: str, count: int = 1, unit: str = "files") -> None:
        """Counts problems of a kind. The first example in alphabetical order is kept."""
        problem = self.found.setdefault(code, Problem(sentence, unit=unit, example=example))
        problem.count += count
        problem.example = min(problem.example, example)

    def merge(self, other: Problems) -> None:
        """Adds the problems of another reading."""
        for code, problem in other.found.items():
            self.add(code, problem.sentence, problem.example, problem.count, problem.unit)

    def texts(self) -> list[str]:
        """Returns one sentence for each kind, in a stable order."""
        return [self.found[code].text() for code in sorted(self.found)]
