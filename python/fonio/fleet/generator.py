"""Generates a fleet from a seed, with planted faults or without any.

The fleet shows whether a report finds what is there, and only that. It has traps as well: models and disks differ in
speed, one kernel exists only on a slow model, systems and kernels are updated step by step, devices differ among each
other and from week to week, and all become slower by a tenth a year.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .schema import SLOW_CLASS, TABLES
from .store import Location

#: The planted faults, and what a report must name.
FAULTS = {
    "firmware": "disk firmware 2.1 of the disk model EM32 makes writes and flushes take 1.6 times as long",
    "unit": "with the system 24.3, metrics.service writes 8 times as much",
    "batch": "disks of the model SDC64 made in 07/2024 take 2.5 times as long for writes, and stall",
}
FIRST_DAY = datetime.date(2025, 1, 1)

_MODELS = ("gateway-a", "gateway-b", "pi-4", "pi-5")
_MODEL_SHARES = (0.35, 0.15, 0.35, 0.15)
#: Disk models: mean write time in microseconds, size, mean bytes written a day, kind, whether it has a life time
#: register.
_DISKS = {
    "EM32": (2_500, 32 << 30, 4e9, "emmc", True),
    "EM64": (5_000, 64 << 30, 4e9, "emmc", True),
    "SDA64": (6_000, 64 << 30, 2e9, "sd", False),
    "SDC64": (5_000, 64 << 30, 2e9, "sd", False),
    "N256": (300, 256 << 30, 8e9, "nvme", True),
}
_DISK_NAMES = tuple(_DISKS)
_UNITS = ("database.service", "telemetry.service", "metrics.service", "systemd-journald.service")
_UNIT_SHARES = np.array([0.45, 0.3, 0.1, 0.15])
_SYSTEMS = ("24.1", "24.2", "24.3", "24.4")
_CAUSES = ("own-syncs", "behind", "slow-request")
#: Figures of StoreBench: their unit, and their value for a disk with a mean write time of a millisecond.
_FIGURES = {
    "response.rand_read.4k.mean": ("ms", 0.2),
    "response.rand_write.4k.mean": ("ms", 0.6),
    "sync.write.4k.p50": ("ms", 2.5),
    "sustained.last": ("MB/s", 60.0),
}
#: Bytes of a write.
_WRITE_BYTES = 40_960
#: Total writes of a disk before it is worn out, as a multiple of its size, and the write amplification.
_CYCLES, _AMPLIFICATION = 500, 2.0


@dataclass(frozen=True)
class Plan:
    """What is generated."""

    devices: int = 10_000
    days: int = 365
    seed: int = 1
    faults: tuple[str, ...] = tuple(FAULTS)
    first_day: datetime.date = FIRST_DAY
    #: Files for each day and table.
    files_a_day: int = 1


def generate(plan: Plan, location: Location) -> None:
    """Writes a generated fleet as Parquet files."""
    for day, tables in generated_days(plan):
        for name, table in tables.items():
            if not table.num_rows:
                continue
            size = -(-max(table.num_rows, 1) // plan.files_a_day)
            for part in range(plan.files_a_day):
                sink = pa.BufferOutputStream()
                pq.write_table(table.slice(part * size, size), sink, compression="zstd")
                location.write(f"{name}/{day}/part-{part:03}.parquet", sink.getvalue().to_pybytes())


def generated_days(plan: Plan) -> Iterator[tuple[datetime.date, dict[str, pa.Table]]]:
    """Returns the tables of each day."""
    fleet = _Fleet(plan)
    for number in range(plan.days):
        yield plan.first_day + datetime.timedelta(days=number), fleet.day(number)


class _Fleet:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = random = np.random.Generator(np.random.PCG64(plan.seed))
        n = plan.devices
        names = [hashlib.sha256(f"{plan.seed}:{number}".encode()).hexdigest()[:24] for number in range(n)]
        self.names = pa.array(names)
        self.model = random.choice(4, n, p=_MODEL_SHARES)
        card = np.where(random.random(n) < 0.5, 2, 3)
        self.disk = np.choose(self.model, [0, 1, card, 4])
        facts = [_DISKS[name] for name in _DISK_NAMES]
        self.base_us = np.array([fact[0] for fact in facts], float)[self.disk] * random.lognormal(0, 0.3, n)
        self.size = np.array([fact[1] for fact in facts])[self.disk]
        self.bytes_a_day = np.array([fact[2] for fact in facts])[self.disk] * random.lognormal(0, 0.6, n)
        self.has_register = np.array([fact[4] for fact in facts])[self.disk]
        # Months of manufacture: the two years before the first day.
        self.made = random.integers(0, 24, n)
        bad_month = 18  # 07/2024
        self.made = np.where((self.disk == 3) & (random.random(n) < 0.15), bad_month, self.made)
        self.is_bad = (self.disk == 3) & (self.made == bad_month) & ("batch" in plan.faults)
        self.firmware = np.where(random.random(n) < 0.5, 0, 1)  # 1.6 or 1.7 of each disk model
        length = plan.days
        # Each update begins at a share of the time, goes on for a share of it, and reaches a share of the devices.
        self.firmware_day = self._rollout(0.62, 0.1, 0.6, self.model == 0)
        self.kernel_day = self._rollout(0.33, 0.1, 0.7, self.model != 1)
        self.system_days = [self._rollout(begin, 0.08, 0.85, np.ones(n, bool)) for begin in (0.2, 0.5, 0.8)]
        self.unit_shares = _UNIT_SHARES * random.lognormal(0, 0.3, (n, len(_UNITS)))
        self.unit_shares /= self.unit_shares.sum(axis=1, keepdims=True)
        self.stall_rate = 0.03 * random.lognormal(0, 1.0, n)
        age_days = (24 - self.made) * 30.4
        self.endurance = self.size * _CYCLES / _AMPLIFICATION
        self.used_bytes = age_days * self.bytes_a_day
        self.slow_noise = np.zeros(n)
        self.length = length
        # Results of StoreBench have random numbers of their own. Most devices are measured early and late.
        self.bench_random = bench = np.random.Generator(np.random.PCG64([plan.seed, 1]))
        self.bench_days = np.where(
            bench.random((n, 2)) < 0.8, np.floor((np.array([0.1, 0.78]) + 0.2 * bench.random((n, 2))) * plan.days), -1
        )
        self.bench_spread = bench.lognormal(0, 0.1, (n, len(_FIGURES)))

    def _rollout(self, begin: float, lasts: float, share: float, which: np.ndarray) -> np.ndarray:
        """Returns the day on which each device is updated; a day after the end if it is not."""
        n, random = self.plan.devices, self.random
        days = (begin + lasts * random.random(n)) * self.plan.days
        return np.where(which & (random.random(n) < share), days, np.inf)

    def day(self, number: int) -> dict[str, pa.Table]:
        plan, random, n = self.plan, self.random, self.plan.devices
        firmware = np.where(number >= self.firmware_day, 2, self.firmware)
        kernel = np.where(self.model == 1, 2, np.where(number >= self.kernel_day, 1, 0))
        # A device that leaves a release out gets the next one.
        system = np.zeros(n, int)
        for release, begins in enumerate(self.system_days, start=1):
            system = np.where(number >= begins, release, system)
        # Each device differs from week to week, with a memory of about ten days.
        self.slow_noise = 0.9 * self.slow_noise + 0.04 * random.standard_normal(n)
        is_present = random.random(n) < 0.97
        watched = np.where(random.random(n) < 0.05, random.integers(600, 86_400, n), 86_400)
        share = watched / 86_400
        unit_bytes = self.unit_shares * (self.bytes_a_day * share * random.lognormal(0, 0.2, n))[:, None]
        if "unit" in plan.faults:
            unit_bytes[:, 2] *= np.where(system == 2, 8, 1)
        written = unit_bytes.sum(axis=1)
        slower = np.exp(self.slow_noise + 0.1 * number / 365)
        write_slower = slower * np.where(self.is_bad, 2.5, 1.0)
        if "firmware" in plan.faults:
            write_slower = write_slower * np.where((self.disk == 0) & (firmware == 2), 1.6, 1.0)
        columns: dict[str, Any] = {}
        writes = np.maximum(written / _WRITE_BYTES, 1)
        counts = {"read": writes * 1.5, "write": writes, "flush": writes / 20}
        means = {
            "read": self.base_us * 0.3 * slower,
            "write": self.base_us * write_slower,
            "flush": self.base_us * 4 * write_slower,
        }
        for op, plural in (("read", "reads"), ("write", "writes"), ("flush", "flushes")):
            total = np.maximum((counts[op]).astype(np.int64), 1)
            classes = _classes(total, means[op])
            noise = random.lognormal(0, 0.02, n)
            columns |= {
                plural: total,
                f"{op}_us": (total * means[op] * noise).astype(np.int64),
                f"slow_{plural}": classes[:, SLOW_CLASS:].sum(axis=1),
                f"{op}_classes": classes,
            }
        rate = self.stall_rate * share * np.minimum(write_slower, 3) ** 2 * np.where(self.is_bad, 40, 1)
        stalls = random.poisson(np.minimum(rate, 200))
        stalled_ms = (stalls * 1500 * random.lognormal(0, 0.5, n)).astype(np.int64)
        self.used_bytes = self.used_bytes + written
        used = np.minimum(np.ceil(self.used_bytes / self.endurance * 10), 11) * 10
        busy_ms = np.minimum(columns["write_us"] / 1000 * 0.5, watched * 1000)
        columns |= {
            "device": self.names,
            "source": _same("watch", n),
            "writer": _same("fonio generated", n),
            "model": _named(self.model, _MODELS),
            "kernel": _named(kernel, ("6.1.115", "6.6.63", "6.12.8")),
            "os": _named(system, _SYSTEMS),
            "disk": _named(np.where(self.disk == 4, 1, 0), ("mmcblk0", "nvme0n1")),
            "disk_kind": _named(self.disk, tuple(fact[3] for fact in _DISKS.values())),
            "disk_model": _named(self.disk, _DISK_NAMES),
            "disk_firmware": _named(firmware, ("1.6", "1.7", "2.1")),
            "disk_made": _named(self.made, tuple(f"{month % 12 + 1:02}/{2023 + month // 12}" for month in range(24))),
            "disk_bytes": self.size,
            "watched_s": watched,
            "limited_s": np.zeros(n, int),
            "unobserved": np.zeros(n, int),
            "read_bytes": (counts["read"] * 24_000).astype(np.int64),
            "written_bytes": written.astype(np.int64),
            "busy_ms": busy_ms.astype(np.int64),
            "stalls": stalls,
            "stalled_ms": stalled_ms,
            "life_used_percent": pa.array(used.astype(np.int32), mask=~self.has_register),
            "reserved_blocks": pa.nulls(n, pa.string()),
        }
        day = plan.first_day + datetime.timedelta(days=number)
        present = np.flatnonzero(is_present)
        return {
            "days": _table("days", day, columns, n).take(present),
            "units": self._units(day, columns["disk"], unit_bytes, present),
            "stalls": self._stalls(day, columns["disk"], stalls, stalled_ms, is_present),
            "results": self._results(number, day, columns, write_slower / slower),
        }

    def _units(self, day: datetime.date, disk: pa.Array, unit_bytes: np.ndarray, present: np.ndarray) -> pa.Table:
        k = len(_UNITS)
        rows = np.repeat(present, k)
        which = np.tile(np.arange(k), len(present))
        written = unit_bytes[present].reshape(-1).astype(np.int64)
        columns = {
            "device": self.names.take(rows),
            "disk": disk.take(rows),
            "unit": _named(which, _UNITS),
            "written_bytes": written,
            "read_bytes": written // 2,
            "blocked_us": written // 40,
        }
        return _table("units", day, columns, len(rows))

    def _stalls(
        self, day: datetime.date, disk: pa.Array, stalls: np.ndarray, stalled_ms: np.ndarray, is_present: np.ndarray
    ) -> pa.Table:
        rows = np.flatnonzero((stalls > 0) & is_present)
        random = self.random
        cause = np.where(self.is_bad[rows], 2, random.choice(3, len(rows), p=(0.5, 0.3, 0.2)))
        blocked = random.choice(len(_UNITS), len(rows), p=_UNIT_SHARES)
        culprit = pa.array(["telemetry.service"] * len(rows), pa.string(), mask=cause != 1)
        columns = {
            "device": self.names.take(rows),
            "disk": disk.take(rows),
            "unit": _named(blocked, _UNITS),
            "cause": _named(cause, _CAUSES),
            "culprit": culprit,
            "stalls": stalls[rows],
            "stalled_ms": stalled_ms[rows],
            "longest_ms": stalled_ms[rows] // np.maximum(stalls[rows], 1),
        }
        return _table("stalls", day, columns, len(rows))

    def _results(self, number: int, day: datetime.date, columns: dict, write_slower: np.ndarray) -> pa.Table:
        measured = np.flatnonzero((self.bench_days == number).any(axis=1))
        count, k, random = len(measured), len(_FIGURES), self.bench_random
        rows, which = np.repeat(measured, k), np.tile(np.arange(k), count)
        names = tuple(_FIGURES)
        factors = (
            self.bench_spread[measured]
            * random.lognormal(0, 0.05, (count, k))
            * (self.base_us[measured] / 1000)[:, None]
        )
        factors[:, 1:] *= write_slower[measured][:, None]
        factors[:, 3] = 1 / factors[:, 3]
        value = (factors * np.array([unit_value[1] for unit_value in _FIGURES.values()])).reshape(-1)
        class_gb = 2 ** np.ceil(np.log2(self.size[rows] / 1.08e9)).astype(int)
        began = int((day - datetime.date(1970, 1, 1)).days) * 86_400 + 3_600
        shared = {
            name: columns[name].take(rows)
            for name in ("device", "model", "kernel", "os", "disk_kind", "disk_model", "disk_firmware", "disk_made")
        }
        return _table(
            "results",
            day,
            shared
            | {
                "began_s": np.full(len(rows), began),
                "writer": _same("fonio generated", len(rows)),
                "engine": _same("generated", len(rows)),
                "comparison": pa.array([f"v1.full.directory.ext4.{size}gb" for size in class_gb], pa.string()),
                "disk_bytes": self.size[rows],
                "figure": _named(which, names),
                "unit": _named(which, tuple(_FIGURES[name][0] for name in names)),
                "value": pa.array(value),
                "least": pa.array(value * 0.98),
                "most": pa.array(value * 1.02),
                "runs": pa.array(np.full(len(rows), 3, np.int32)),
            },
            len(rows),
        )


def _classes(total: np.ndarray, mean_us: np.ndarray) -> np.ndarray:
    """Returns counts of response times in classes: log-normal, with a standard deviation of a factor of e."""
    # The mean of this distribution is e**0.5 times its median.
    distance = (np.arange(24)[None, :] - 0.5 - np.log2(mean_us / np.exp(0.5))[:, None]) * np.log(2)
    density = np.exp(-0.5 * distance**2)
    density /= density.sum(axis=1, keepdims=True)
    counts = np.floor(total[:, None] * density).astype(np.int64)
    most = counts.argmax(axis=1)
    counts[np.arange(len(total)), most] += total - counts.sum(axis=1)
    return counts


def _same(value: str, n: int) -> pa.Array:
    return pa.array([value] * n)


def _named(codes: np.ndarray, names: tuple[str, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names)).cast(pa.string())


def _table(name: str, day: datetime.date, columns: dict, rows: int) -> pa.Table:
    arrays = []
    for field in TABLES[name]:
        if field.name == "day":
            arrays.append(pa.array([day] * rows, pa.date32()))
            continue
        value = columns[field.name]
        if isinstance(value, np.ndarray) and value.ndim == 2:
            offsets = np.arange(0, (rows + 1) * value.shape[1], value.shape[1], dtype=np.int32)
            value = pa.ListArray.from_arrays(pa.array(offsets), pa.array(value.reshape(-1)))
        arrays.append(value if isinstance(value, pa.Array) else pa.array(value.astype(np.int64)))
    return pa.Table.from_arrays(arrays, schema=TABLES[name])
