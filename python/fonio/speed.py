"""Measures the speed of the simulator: `python -m fonio.speed`. With `--json`, prints all values as JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import time
from typing import Any

import fonio

ROUNDS = 5
REQUESTS = 300_000
SEEDS = range(1, 9)


def _load(count: int) -> list[Any]:
    return [
        fonio.ClosedLoop(count // 2, reads=0.7, depth=8, process=1),
        fonio.ClosedLoop(count // 2, reads=0.0, size=16384, order="sequential", depth=4, process=2),
    ]


def _rates(profile: str, scheduler: str, load: object) -> list[float]:
    """Returns the requests per second of processor time in each round."""
    rates = []
    for _ in range(ROUNDS):
        began = time.process_time()
        fonio.simulate(profile, load, scheduler, capacity="1 GiB", samples=1000)
        rates.append(REQUESTS / (time.process_time() - began))
    return rates


def measure() -> dict[str, Any]:
    """Measures closed loops, tables and a sweep. Each list has a value for each round."""
    loops, tables = [], []
    for profile in ("sd_a1", "ufs31"):
        for scheduler in ("noop", "mq-deadline", "bfq"):
            loops.append(
                {"profile": profile, "scheduler": scheduler, "rates": _rates(profile, scheduler, _load(REQUESTS))}
            )
    requests = fonio.simulate("ufs31", _load(REQUESTS), capacity="1 GiB").requests
    sources: dict[str, object] = {"a result": requests}
    with contextlib.suppress(ImportError):
        sources["pyarrow"] = requests.to_arrow().combine_chunks()
    for source, table in sources.items():
        for profile in ("sd_a1", "ufs31"):
            tables.append({"profile": profile, "source": source, "rates": _rates(profile, "noop", table)})

    load = _load(REQUESTS // 4)
    serial, ratios = [], []
    for _ in range(ROUNDS):
        began = time.process_time()
        one = fonio.sweep("ufs31", load, seeds=SEEDS, capacity="1 GiB", threads=1)
        used = time.process_time() - began
        # Everything that no thread of the sweep does: reading the load, and making the result.
        serial.append(1 - sum(one.processor_seconds) / used)
        two = fonio.sweep("ufs31", load, seeds=SEEDS, capacity="1 GiB", threads=2)
        ratios.append(two.seconds / one.seconds)
    sweep = {"runs": len(SEEDS), "serial": serial, "two_threads": ratios}
    return {"rounds": ROUNDS, "requests": REQUESTS, "loops": loops, "tables": tables, "sweep": sweep}


def main() -> None:
    """Prints requests per second and core, and the serial share of a sweep."""
    parser = argparse.ArgumentParser(prog="python -m fonio.speed", description="Measure the speed of the simulator.")
    parser.add_argument("--json", action="store_true", help="print all values as JSON")
    as_json = parser.parse_args().json
    measured = measure()
    if as_json:
        print(json.dumps(measured))
        return
    print(f"fonio {fonio.__version__}, {len(os.sched_getaffinity(0))} processors, medians of {ROUNDS} rounds")
    print("\nprocesses that wait for their requests, requests per second of processor time:")
    for row in measured["loops"]:
        print(f"  {row['profile']:>6}, {row['scheduler']:<12} {statistics.median(row['rates']):>12,.0f}")
    print("\nthe same requests at given times, with noop, from a table:")
    for row in measured["tables"]:
        print(f"  {row['profile']:>6}, {row['source']:<12} {statistics.median(row['rates']):>12,.0f}")
    sweep = measured["sweep"]
    share, ratio = statistics.median(sweep["serial"]), statistics.median(sweep["two_threads"])
    print(f"\na sweep of {sweep['runs']} runs: {share:.2%} of the processor time is serial")
    print(f"elapsed time with 2 threads, relative to 1 thread: {ratio:.2f} (on 2 idle processors)")


if __name__ == "__main__":
    main()
