"""Comparisons of devices, from counts of devices in bins.

The device is the sampling unit: each device has one value of a measure, and the SQL counts devices by bins of this
value (64 bins are a factor of two). All numbers here follow from these counts, so they need memory for bins, not for
devices.

A comparison is van Elteren's test: Wilcoxon's rank sum test within strata, weighted by 1 / (devices + 1). The estimate
of the shift between two groups is the shift at which the test statistic is zero (Hodges and Lehmann), and the interval
consists of the shifts that the test does not reject. Both use ranks, so a few extreme devices change neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

#: Bins for a factor of two.
BINS_PER_OCTAVE = 64
#: The probability that a report without any true difference names at least one difference.
FAMILY_ERROR = 0.01
#: A difference is named only if its interval lies completely above this ratio.
RATIO_MIN = 1.05
#: Devices that each group of a comparison needs, in strata with devices of both groups.
DEVICES_MIN = 20

Counts = Mapping[int, int]


@dataclass(frozen=True)
class Stratum:
    """Devices of two groups that differ in the compared attribute only, as counts by bin."""

    group: Counts
    others: Counts


@dataclass(frozen=True)
class Comparison:
    """A group against the others, within strata. Ratios above 1 mean that the group has larger values."""

    devices: int
    others: int
    strata: int
    z: float
    ratio: float
    least: float
    most: float

    @property
    def is_worse(self) -> bool:
        """Whether the complete interval is above the smallest ratio that counts."""
        return self.least >= RATIO_MIN

    @property
    def is_better(self) -> bool:
        """Whether the complete interval is below the inverse of the smallest ratio that counts."""
        return self.most <= 1 / RATIO_MIN


def critical_z(comparisons: int) -> float:
    """Returns the bound of |z| for two-sided comparisons that are correct together (Bonferroni)."""
    return NormalDist().inv_cdf(1 - FAMILY_ERROR / (2 * max(comparisons, 1)))


class Shifted:
    """The test statistic of van Elteren as a function of a shift of the first group."""

    def __init__(self, strata: Iterable[Stratum]) -> None:
        used = [stratum for stratum in strata if stratum.group and stratum.others]
        self.strata = len(used)
        self.devices = sum(sum(stratum.group.values()) for stratum in used)
        self.others = sum(sum(stratum.others.values()) for stratum in used)
        self._parts = []
        for stratum in used:
            group = np.array(sorted(stratum.group.items()), dtype=np.int64)
            others = np.array(sorted(stratum.others.items()), dtype=np.int64)
            self._parts.append((group[:, 0], group[:, 1], others[:, 0], others[:, 1]))
        if self._parts:
            self.lowest = min(int(part[0][0] - part[2][-1]) for part in self._parts) - 1
            self.highest = max(int(part[0][-1] - part[2][0]) for part in self._parts) + 1

    def z(self, shift: int) -> float:
        """Returns the statistic after the first group was moved down by `shift` bins."""
        centred, variance = 0.0, 0.0
        for bins, counts, other_bins, other_counts in self._parts:
            moved = bins - shift
            below = np.concatenate(([0], np.cumsum(other_counts)))
            first = np.searchsorted(other_bins, moved, side="left")
            after = np.searchsorted(other_bins, moved, side="right")
            # Twice the number of pairs in which the first group is larger; an equal pair counts half.
            larger = int(np.sum(counts * (below[first] + below[after])))
            n, m = int(counts.sum()), int(other_counts.sum())
            total = n + m
            ties = _ties(moved, counts, other_bins, other_counts)
            weight = 1 / (total + 1)
            centred += weight * (larger - n * m) / 2
            spread = total + 1 - (ties / (total * (total - 1)) if total > 1 else 0)
            variance += weight * weight * n * m / 12 * max(spread, 0)
        return centred / math.sqrt(variance) if variance > 0 else 0.0

    def last_above(self, bound: float) -> int:
        """Returns the largest shift at which z is above `bound`, by bisection: z falls as the shift grows."""
        low, high = self.lowest, self.highest
        if self.z(low) <= bound:
            return low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.z(middle) > bound else (low, middle)
        return low


def _ties(bins: np.ndarray, counts: np.ndarray, other_bins: np.ndarray, other_counts: np.ndarray) -> float:
    joined = np.concatenate((bins, other_bins))
    order = np.argsort(joined, kind="stable")
    values, sizes = joined[order], np.concatenate((counts, other_counts))[order]
    starts = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    sums = np.add.reduceat(sizes, starts).astype(float)
    return float(np.sum(sums**3 - sums))


def compare(strata: Iterable[Stratum], z_bound: float) -> Comparison | None:
    """Compares a group with the others within strata.

    Returns `None` if the interval contains a ratio of 1, or if a group has fewer than `DEVICES_MIN` devices.
    """
    shifted = Shifted(strata)
    if shifted.devices < DEVICES_MIN or shifted.others < DEVICES_MIN:
        return None
    if abs(shifted.z(0)) <= z_bound:
        return None
    centre = shifted.last_above(0.0)
    # At `centre` the group is still larger, one bin later it is not: the estimate lies at or between both.
    estimate = centre + (0.5 if shifted.z(centre + 1) < 0 else 1)
    return Comparison(
        devices=shifted.devices,
        others=shifted.others,
        strata=shifted.strata,
        z=shifted.z(0),
        ratio=ratio(estimate),
        # The last rejected shift from below, and the first rejected shift from above, bound the interval.
        least=ratio(shifted.last_above(z_bound)),
        most=ratio(_first_below(shifted, -z_bound)),
    )


def _first_below(shifted: Shifted, bound: float) -> int:
    low, high = shifted.lowest, shifted.highest
    if shifted.z(high) >= bound:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shifted.z(middle) < bound else (middle, high)
    return high


def ratio(bins: float) -> float:
    """Returns the ratio of a shift in bins."""
    return 2 ** (bins / BINS_PER_OCTAVE)


def quantile(counts: Counts, share: float) -> float | None:
    """Returns the bin of a quantile of devices; `None` without devices."""
    total = sum(counts.values())
    if not total:
        return None
    rank, seen = math.ceil(total * share), 0
    for bin, count in sorted(counts.items()):
        seen += count
        if seen >= rank:
            return bin
    raise AssertionError("the ranks end with the last bin")


def share_interval(hits: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Returns the interval of a share of devices (Wilson)."""
    if total == 0:
        return 0.0, 1.0
    p = hits / total
    centre = (p + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return max(0.0, centre - half), min(1.0, centre + half)


@dataclass(frozen=True)
class Step:
    """The week in which a weekly series rose, with the first and last week that fit nearly as well."""

    week: int
    first: int
    last: int


#: A step must explain this share of the variance of the weekly series.
STEP_EXPLAINS_MIN = 0.5
#: Weeks on each side of a step.
STEP_WEEKS_MIN = 3


def find_step(series: Mapping[int, float], size_min: float) -> Step | None:
    """Finds the week from which a series is higher, by least squares.

    Returns `None` if no step explains half of the variance and is at least `size_min` high: then the series was never
    lower, rose slowly, or is too short. The range has all steps whose squared error is below the best one by chi square
    with one degree of freedom at 95 %.
    """
    weeks = sorted(series)
    values = np.array([series[week] for week in weeks])
    if len(weeks) < 2 * STEP_WEEKS_MIN:
        return None
    whole = float(np.sum((values - values.mean()) ** 2))
    errors = {}
    for at in range(STEP_WEEKS_MIN, len(weeks) - STEP_WEEKS_MIN + 1):
        before, after = values[:at], values[at:]
        if after.mean() - before.mean() >= size_min:
            errors[at] = float(np.sum((before - before.mean()) ** 2) + np.sum((after - after.mean()) ** 2))
    if not errors or whole == 0:
        return None
    best = min(errors, key=lambda at: (errors[at], at))
    if 1 - errors[best] / whole < STEP_EXPLAINS_MIN:
        return None
    bound = errors[best] * (1 + 3.84 / max(len(weeks) - 2, 1))
    fitting = [at for at, error in errors.items() if error <= bound]
    return Step(weeks[best], weeks[min(fitting)], weeks[max(fitting)])
