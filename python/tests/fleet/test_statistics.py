"""The comparison against naive code, and the rules that it must keep."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from fonio.fleet.statistics import Shifted, Stratum, compare, critical_z, find_step, quantile, ratio, share_interval


def naive_z(strata: list[tuple[list[int], list[int]]], shift: int) -> float:
    """Van Elteren's statistic from single values, pair by pair."""
    centred = variance = 0.0
    for group, others in strata:
        n, m = len(group), len(others)
        if not n or not m:
            continue
        wins = sum((a - shift > b) + 0.5 * (a - shift == b) for a in group for b in others)
        total = n + m
        ties = sum(count**3 - count for count in Counter([a - shift for a in group] + others).values())
        weight = 1 / (total + 1)
        centred += weight * (wins - n * m / 2)
        variance += weight**2 * n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    return centred / math.sqrt(variance) if variance else 0.0


def counted(values: list[int]) -> Counter:
    return Counter(values)


@pytest.mark.parametrize("seed", range(20))
def test_counts_in_bins_give_what_single_values_give(seed):
    source = random.Random(seed)
    strata = [
        (
            [source.randrange(12) for _ in range(source.randrange(9))],
            [source.randrange(12) for _ in range(source.randrange(9))],
        )
        for _ in range(4)
    ]
    if not any(group and others for group, others in strata):
        strata.append(([1], [2]))
    shifted = Shifted([Stratum(counted(group), counted(others)) for group, others in strata])
    for shift in (-3, 0, 2):
        assert shifted.z(shift) == pytest.approx(naive_z(strata, shift), abs=1e-12)


def test_a_known_shift_is_in_the_interval_and_the_speed_of_a_stratum_is_not_blamed():
    source = random.Random(1)
    strata = []
    for number, base in enumerate((100, 900)):
        # Nearly all of the group are in the slow stratum: without strata, it would look much slower.
        sizes = (10, 300) if number == 0 else (300, 10)
        group = [int(source.gauss(base + 32, 30)) for _ in range(sizes[0])]
        others = [int(source.gauss(base, 30)) for _ in range(sizes[1])]
        strata.append(Stratum(counted(group), counted(others)))
    found = compare(strata, critical_z(1))
    assert found is not None and (found.devices, found.others) == (310, 310)
    assert found.least < ratio(32) < found.most
    assert found.least > 1.1 and found.most < 1.9
    assert found.is_worse and not found.is_better


def test_no_difference_and_too_few_devices_have_no_answer():
    equal = Stratum({5: 50, 6: 50}, {5: 50, 6: 50})
    assert compare([equal], critical_z(1)) is None
    few = Stratum({500: 19}, {1: 1000})
    assert compare([few], critical_z(1)) is None
    enough = compare([Stratum({500: 20}, {1: 1000})], critical_z(1))
    assert enough is not None and enough.is_worse
    # Devices without a partner of the same kind do not count.
    assert compare([Stratum({500: 1000}, {}), Stratum({500: 19}, {1: 100})], critical_z(1)) is None


def test_comparisons_are_correct_together():
    source = random.Random(4)
    false, families, size = 0, 60, 40
    for _ in range(families):
        bound = critical_z(size)
        hits = 0
        for _ in range(size):
            strata = [
                Stratum(
                    counted([int(source.gauss(0, 20)) for _ in range(25)]),
                    counted([int(source.gauss(0, 20)) for _ in range(40)]),
                )
                for _ in range(2)
            ]
            hits += compare(strata, bound) is not None
        false += hits > 0
    # One family in a hundred may have a false difference: 4 or more of 60 have a probability below 1 in 300.
    assert false <= 3


def test_a_step_is_found_where_it_is_and_only_if_there_is_one():
    step = find_step({week: (40.0 if week >= -6 else 0.0) + week % 3 for week in range(-20, 0)}, 20)
    assert step is not None and step.week == -6 and step.first <= -6 <= step.last
    assert find_step({week: float(week % 5) for week in range(-20, 0)}, 20) is None, "noise"
    assert find_step(dict.fromkeys(range(-20, 0), 100.0), 20) is None, "always so"
    assert find_step({-2: 0.0, -1: 90.0}, 20) is None, "too short"
    fall = {week: (0.0 if week >= -6 else 40.0) for week in range(-20, 0)}
    assert find_step(fall, 20) is None, "it became better"


def test_shares_and_quantiles():
    assert quantile({1: 3, 5: 1}, 0.5) == 1 and quantile({1: 3, 5: 1}, 1.0) == 5 and quantile({}, 0.5) is None
    least, most = share_interval(0, 10)
    assert least == 0 and 0.2 < most < 0.4
    assert share_interval(0, 0) == (0.0, 1.0)
