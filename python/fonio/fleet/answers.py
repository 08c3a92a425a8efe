"""The answers of a report, as plain data."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from .statistics import Comparison

#: The version of the JSON document of a report.
SCHEMA = "fonio.fleet-report/1"


@dataclass
class Culprit:
    """An attribute with which a measure is worse (or better) than with the alternatives, all else equal."""

    #: Such as `disk_firmware`, or several, if they changed together.
    factors: list[str]
    #: The values, in the order of the factors.
    levels: list[str]
    #: The former values for a change within devices; `None` for a comparison between devices.
    from_levels: list[str] | None
    measure: str
    comparison: Comparison
    #: The first day from which the measure is worse; `None` if it was never better.
    since: datetime.date | None = None
    #: The range of days in which it became worse.
    since_range: tuple[datetime.date, datetime.date] | None = None
    #: The devices that have the attribute at the end of the data.
    devices_now: int = 0
    #: Other attributes that cannot be told apart from this one.
    inseparable: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple:
        return (tuple(self.factors), tuple(self.levels), self.measure)


@dataclass
class Unknown:
    """A comparison that the data cannot answer."""

    factor: str
    level: str
    devices: int
    why: str


@dataclass
class Sufferers:
    """The devices of a group that stall."""

    factor: str
    level: str
    devices: int
    suffering: int
    share: float
    share_least: float
    share_most: float
    stalled_s_a_day: float


@dataclass
class Outlier:
    """A device far above the others of its kind."""

    device: str
    measure: str
    model: str
    disk_model: str
    times_median: float
    why: str


@dataclass
class Wear:
    """When disks will be worn out, by their life time registers."""

    disks: int
    worn: int
    unknown: int
    rank: int
    #: The day at which `rank` disks are worn out: at the earliest and at the latest.
    earliest: datetime.date | None
    latest: datetime.date | None
    #: Disks among the first `rank`, by disk model.
    by_model: dict[str, int]


@dataclass
class Benchmarked:
    """The disks of a model in StoreBench: the median of the last results of their devices."""

    disk_model: str
    #: The comparison key: only results with equal keys are compared.
    comparison: str
    quantity: str
    devices: int
    #: In milliseconds, and in 10⁶ bytes per second for the long write.
    median: float


@dataclass
class Report:
    """All answers of a report."""

    place: str
    engine: str
    first_day: datetime.date
    last_day: datetime.date
    weeks: int
    devices: int
    devices_now: int
    device_days: int
    device_days_now: int
    written_bytes: int
    files: int
    file_bytes: int
    comparisons: int
    z_bound: float
    culprits: list[Culprit]
    better: list[Culprit]
    unknown: list[Unknown]
    sufferers: list[Sufferers]
    stall_causes: list[dict]
    writers: list[dict]
    outliers: list[Outlier]
    outliers_in_all: int
    wear: Wear | None
    #: Medians of StoreBench by disk model.
    benchmarked: list[Benchmarked]
    #: Devices whose results of StoreBench are far behind those of others of their kind, or fell behind.
    behind: list[Outlier]
    behind_in_all: int
    problems: list[str]
