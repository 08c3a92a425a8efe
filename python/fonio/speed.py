"""Measures the speed of the simulator: `python -m fonio.speed`."""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

import fonio

ROUNDS = 5
REQUESTS = 300_000


def _load(count: int) -> list[Any]:
    return [
        fonio.ClosedLoop(count // 2, reads=0.7, depth=8, process=1),
        fonio.ClosedLoop(count // 2, reads=0.0, size=16384, order="sequential", depth=4, process=2),
    ]


def _rate(profile: str, scheduler: str, load: object, count: int) -> float:
    """Returns the requests per second of processor time, the median of the rounds."""
    rates = []
    for _ in range(ROUNDS):
        began = time.process_time()
        fonio.simulate(profile, load, scheduler, capacity="1 GiB", samples=1000)
        rates.append(count / (time.process_time() - began))
    return statistics.median(rates)


def main() -> None:
    """Prints requests per second and core, and the serial share of a sweep."""
    print(f"fonio {fonio.__version__}, {len(os.sched_getaffinity(0))} processors, medians of {ROUNDS} rounds")
    print("\nprocesses that wait for their requests, requests per second of processor time:")
    for profile in ("sd_a1", "ufs31"):
        for scheduler in ("noop", "mq-deadline", "bfq"):
            print(f"  {profile:>6}, {scheduler:<12} {_rate(profile, scheduler, _load(REQUESTS), REQUESTS):>12,.0f}")
    table = fonio.simulate("ufs31", _load(REQUESTS), capacity="1 GiB").requests
    print("\nthe same requests at given times, from a table:")
    for profile in ("sd_a1", "ufs31"):
        print(f"  {profile:>6}, noop         {_rate(profile, 'noop', table, REQUESTS):>12,.0f}")

    seeds = range(1, 9)
    load = _load(REQUESTS // 4)
    serial, ratios = [], []
    for _ in range(ROUNDS):
        began = time.process_time()
        one = fonio.sweep("ufs31", load, seeds=seeds, capacity="1 GiB", threads=1)
        used = time.process_time() - began
        # Everything that no thread of the sweep does: reading the load, and making the result.
        serial.append(1 - sum(one.processor_seconds) / used)
        two = fonio.sweep("ufs31", load, seeds=seeds, capacity="1 GiB", threads=2)
        ratios.append(two.seconds / one.seconds)
    share = statistics.median(serial)
    print(f"\na sweep of {len(seeds)} runs: {share:.2%} of the processor time is serial")
    print(
        f"elapsed time with 2 threads, relative to 1 thread: {statistics.median(ratios):.2f} (on 2 idle processors)"
    )


if __name__ == "__main__":
    main()
