"""Measures reports over generated fleets, for `cargo xtask bench fleet`. Prints one JSON object for each measurement.

python3 benchmark.py growth FOLDER DAYS DEVICES...
python3 benchmark.py silent FOLDER DAYS DEVICES SEEDS FIRST_SEED
python3 benchmark.py found FOLDER DAYS DEVICES SEEDS FIRST_SEED
python3 benchmark.py engines FOLDER DAYS DEVICES
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from fonio.fleet.generator import FAULTS, Plan, generate
from fonio.fleet.store import Location

#: The memory of DuckDB in the measurement of growth: the smallest fleet would fill less than the default.
MEMORY = "400MB"
#: Of each planted fault: what a report must name, with a measure.
EXPECTED = {
    "firmware": ("firmware", "EM32 2.1", "write time"),
    "unit": ("os", "24.3", "bytes written by metrics.service"),
    "batch": ("batch", "SDC64 07/2024", "write time"),
}


def main() -> None:
    what, folder, days, *rest = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    numbers = [int(word) for word in rest]
    adopt()
    if what == "growth":
        for devices in numbers:
            with made(folder, devices=devices, days=int(days)) as place:
                tell(
                    devices=devices,
                    days=int(days),
                    bytes=size(place),
                    **measured(["report", place, "--json", "--memory", MEMORY])[0],
                )
    elif what == "engines":
        with made(folder, devices=numbers[0], days=int(days)) as place:
            for engine in ("duckdb", "spark"):
                tell(
                    engine=engine,
                    devices=numbers[0],
                    days=int(days),
                    **measured(["report", place, "--json", "--engine", engine])[0],
                )
    else:
        for seed in range(numbers[2], numbers[2] + numbers[1]):
            with made(
                folder,
                devices=numbers[0],
                days=int(days),
                seed=seed,
                faults=() if what == "silent" else tuple(FAULTS),
            ) as place:
                _, report = measured(["report", place, "--json"])
                named = [(row["factors"], row["levels"], row["measure"]) for row in report["culprits"]]
                found = [
                    name for name, (factor, level, measure) in EXPECTED.items() if ([factor], [level], measure) in named
                ]
                planted = set() if what == "silent" else {(factor, level) for factor, level, _ in EXPECTED.values()}
                false = [row for row in named if not all(pair in planted for pair in zip(row[0], row[1], strict=True))]
                # Without faults, nothing is better than the rest either.
                false += report["better"] if what == "silent" else []
                tell(
                    seed=seed,
                    devices=numbers[0],
                    days=int(days),
                    found=found,
                    false=len(false),
                    outliers=report["outliers_in_all"] + report["behind_in_all"],
                    comparisons=report["comparisons"],
                )


class made:
    """A generated fleet, which is removed at the end."""

    def __init__(self, folder: str, **plan) -> None:
        self.place = tempfile.mkdtemp(dir=folder)
        generate(Plan(**plan), Location(self.place))

    def __enter__(self) -> str:
        return self.place

    def __exit__(self, *_) -> None:
        shutil.rmtree(self.place)


def measured(words: list[str]) -> tuple[dict, dict]:
    """Runs the package, and returns its processor time and memory, and its report."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        process = subprocess.Popen([sys.executable, "-m", "fonio.fleet", *words], stdout=out, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            log.seek(0)
            sys.exit(f"fonio fleet {' '.join(words)} failed:\n{log.read().decode(errors='replace')}")
        adopted()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        out.seek(0)
        report = json.load(out)
    # The processor time includes that of the programs that the report started, such as Spark's Java.
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"processor_s": processor, "memory_bytes": used.ru_maxrss * 1024}, report


def adopt() -> None:
    """Makes this process the parent of the programs that its reports leave, such as Spark's Java."""
    is_subreaper = 36
    if ctypes.CDLL(None, use_errno=True).prctl(is_subreaper, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def adopted() -> None:
    """Waits until the programs that a report left have ended, so that their processor time is counted."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def size(place: str) -> int:
    return sum(path.stat().st_size for path in Path(place).rglob("*.parquet"))


def tell(**facts) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
