"""Simulations of flash devices and I/O schedulers in virtual time."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from fonio import _fonio
from fonio.device_profile import profile as profile_of
from fonio.recording import Recording
from fonio.recording import open as open_input
from fonio.report import Report, analyse
from fonio.table import Table

if TYPE_CHECKING:
    import pandas

ProfileLike = str | os.PathLike[str] | Mapping[str, "str | int"]


class Scheduler(Protocol):
    """An I/O scheduler written in Python, for `simulate(scheduler=…)`.

    Times are nanoseconds and do not decrease. A scheduler must dispatch each inserted request once. While no request is
    in flight, `dispatch` must return a waiting request, or `next_timer` a later time. A scheduler that never holds
    requests back needs no `next_timer`, and `complete` is optional too.
    """

    def insert(self, request: _fonio.Request, now: int) -> None:
        """Takes a request that was queued."""

    def dispatch(self, now: int, in_flight: int) -> _fonio.Request | None:
        """Removes and returns the next request for the device; None holds all waiting requests back."""


class Ftl(Protocol):
    """A flash translation layer written in Python, for `simulate(ftl=…)`.

    `docs/python.md` describes the methods. `close_page(work)`, `discard(unit)`, `die_of(physical_unit)` and `census()`
    are optional.
    """

    def write(self, unit: int, work: _fonio.Work) -> None:
        """Writes a unit of the host to a new address, and adds the flash operations to `work`."""

    def locate(self, unit: int) -> int | None:
        """Returns the address of a unit in flash; None if it was never written."""


class ClosedLoop(_fonio.ClosedLoop):
    """A process that keeps a fixed number of requests in flight, and waits for them.

    `count`: number of requests. `size`: bytes of each request. `reads`: share of reads, 0 to 1. `order`: `random` or
    `sequential`. `depth`: requests in flight. `start` and `range`: the part of the device in bytes; without `range`, up
    to its end. `think_ns`: pause before the next request, a number or a minimum and a maximum. `process`: the number of
    the process. `priority`: `rt/LEVEL`, `be/LEVEL` or `idle`. `sync`: whether a program waits for the writes.
    """

    def __new__(
        cls,
        count: int,
        *,
        size: int = 4096,
        reads: float = 0.0,
        order: str = "random",
        depth: int = 1,
        start: int = 0,
        range: int | None = None,  # noqa: A002
        think_ns: int | tuple[int, int] = 0,
        process: int = 1,
        priority: str = "be/4",
        sync: bool = True,
    ) -> ClosedLoop:
        if order not in ("random", "sequential"):
            raise ValueError(f"order must be random or sequential, not {order!r}")
        if not 0 <= reads <= 1:
            raise ValueError(f"reads must be a share from 0 to 1, not {reads}")
        think = (think_ns, think_ns) if isinstance(think_ns, int) else think_ns
        percent = round(reads * 100)
        made: ClosedLoop = super().__new__(
            cls, count, size, percent, order == "random", depth, start, range, think, process, priority, sync
        )
        return made


class Replay(_fonio.Replay):
    """The accesses of a recording, with the waits of its threads, as `fonio replay --on model:PROFILE` issues them.

    If a recorded thread waited for a request, or for another thread, it does so in the simulation, and continues after
    the recorded pause. So a program issues its requests sooner on a faster device. The accessed data are moved
    together, and are written sequentially before the run.

    `recording`: a recording, a kept stall or a trace, opened or as a path. `fast`: leave out the recorded pauses.
    `accesses`, `left_out` (discards and others) and `of_other_devices` are numbers of recorded requests.
    """

    def __new__(cls, recording: Recording | str | os.PathLike[str], *, fast: bool = False) -> Replay:
        opened = recording if isinstance(recording, Recording) else open_input(recording)
        made: Replay = super().__new__(cls, opened._native, fast)
        return made

    def __repr__(self) -> str:
        return f"<fonio.Replay of {self.accesses} reads, writes and flushes>"


def schedulers() -> list[str]:
    """The names of the schedulers that have a model (`docs/scheduler-models.md`)."""
    return list(_fonio.schedulers())


class Simulation:
    """The result of a simulation."""

    def __init__(self, native: _fonio.Simulation) -> None:
        self._native = native
        self._summary: dict[str, Any] = json.loads(native.summary())

    @property
    def requests(self) -> Table:
        """The requests with their times, with the columns of the table `requests` of a recording.

        The rows have the order of the given table; for `ClosedLoop` and `Replay`, the order of queueing. Times are
        nanoseconds since the start of the run.
        """
        return Table("requests", self._native.requests(), self._summary["requests"])

    @property
    def states(self) -> Table:
        """The counters of the device and its free erase blocks over time."""
        return Table("states", self._native.states())

    @property
    def wear(self) -> Table:
        """How often each erase block was erased, the preparation included. Empty for a layer in Python."""
        return Table("wear", self._native.wear())

    @property
    def settings(self) -> dict[str, Any]:
        """The version of fonio, the seed, the profile with all its values, capacity, depth, scheduler and layer."""
        return self._summary["settings"]

    @property
    def summary(self) -> dict[str, Any]:
        """Settings, percentiles, counters, write amplification, erase blocks and wear as plain data."""
        return self._summary

    @property
    def write_amplification(self) -> float | None:
        """Programmed bytes divided by the bytes that the host wrote; None without writes."""
        return self._summary["write_amplification"]

    @property
    def counters(self) -> dict[str, int]:
        """What the device did: bytes, erasures, merges, copied pages and busy time."""
        return self._summary["counters"]

    def percentiles(self, op: str, time: str = "response") -> dict[str, float]:
        """The mean, minimum, maximum and percentiles of an op's times in nanoseconds.

        `time` is `response` (queued to completed), `service` (issued to completed) or `queue` (queued to issued). A
        percentile is the smallest time that at least this share of the requests did not exceed.
        """
        ops = self._summary["ops"]
        if op not in ops:
            raise KeyError(f"the simulation has no requests with op {op!r}; it has {', '.join(ops)}")
        if time not in ("response", "service", "queue"):
            raise ValueError(f"time must be response, service or queue, not {time!r}")
        return ops[op][time]

    def report(self) -> Report:
        """Analyses the simulated requests, as a recording is analysed."""
        return analyse(self.requests, f"simulation of {self.settings['profile']}")

    def __repr__(self) -> str:
        at, count = self.settings, self._summary["requests"]
        return f"<fonio.Simulation of {at['profile']} with {at['scheduler']}: {count} requests, seed {at['seed']}>"


def simulate(
    profile: ProfileLike,
    requests: object,
    scheduler: str | Scheduler = "noop",
    *,
    ftl: Callable[[_fonio.Geometry], Ftl] | None = None,
    capacity: int | str | None = None,
    depth: int | None = None,
    seed: int = 1,
    prepare: object | None = None,
    samples: int = 1000,
) -> Simulation:
    """Runs requests through a scheduler and a device in virtual time.

    `profile`: a name, a path, or a dictionary (see `profile`).
    `requests`: a table with the columns `op`, `sector` (512 bytes), `bytes` and one of `queued_ns`, `inserted_ns` and
    `issued_ns`; `flags`, `tid` and `ioprio` are used if the table has them. So the table `requests` of a recording
    works, and so does any DataFrame with the Arrow interface. Or one or more `ClosedLoop`, or a `Replay`.
    `scheduler`: a name from `schedulers()`, or an object (see `Scheduler`).
    `ftl`: a class or function that makes a translation layer from a geometry, in place of the profile's.
    `capacity`: the size of the device, in bytes or as text; a small device ages sooner.
    `depth`: the queue depth of the driver; by default that of the device.
    `seed`: determines random addresses, think times, and the order of erase blocks.
    `prepare`: requests that run before, and are not counted.
    `samples`: the number of rows of `states`.

    The same arguments give the same result on every machine. Raises `ValueError` for wrong arguments, and `FonioError`
    for requests that cannot be simulated, such as one beyond the end of the device.
    """
    native = profile_of(profile)._native
    size = None if capacity is None else str(capacity)
    load = list(requests) if isinstance(requests, (list, tuple)) else requests
    before = list(prepare) if isinstance(prepare, (list, tuple)) else prepare
    return Simulation(_fonio.simulate(native, load, scheduler, ftl, size, depth, seed, before, samples))


class Sweep:
    """The results of a sweep: one summary for each combination."""

    def __init__(
        self,
        summaries: list[dict[str, Any]],
        varied: list[dict[str, Any]],
        seconds: float,
        processor_seconds: list[float],
    ) -> None:
        self.summaries = summaries
        """The summaries, as of `Simulation.summary`, in the order of the combinations."""
        self.varied = varied
        """The varied settings of each combination."""
        self.seconds = seconds
        """The elapsed time of all runs."""
        self.processor_seconds = processor_seconds
        """The processor time of each run."""

    def rows(self) -> list[dict[str, Any]]:
        """One flat row for each combination: the varied settings, times in nanoseconds, wear and amplification."""
        found = []
        for varied, summary in zip(self.varied, self.summaries, strict=True):
            row = dict(varied)
            for op, numbers in summary["ops"].items():
                row[f"{op}_count"] = numbers["count"]
                for name, value in numbers["response"].items():
                    row[f"{op}_response_{name}"] = value
            row["span_ns"] = summary["span_ns"]
            row["write_amplification"] = summary["write_amplification"]
            row["erases"] = summary["counters"]["erases"]
            row["wear_max"] = summary["wear"]["max"] if summary["wear"] else None
            row["version"] = summary["settings"]["version"]
            found.append(row)
        return found

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a DataFrame."""
        import pandas

        return pandas.DataFrame(self.rows())

    def __len__(self) -> int:
        return len(self.summaries)

    def __repr__(self) -> str:
        return f"<fonio.Sweep: {len(self)} runs in {self.seconds:.2f} s>"


def sweep(
    profiles: ProfileLike | Sequence[ProfileLike],
    requests: object,
    schedulers: str | Sequence[str] = "noop",
    *,
    changes: Mapping[str, Sequence[str | int]] | None = None,
    depths: Iterable[int | None] = (None,),
    seeds: Iterable[int] = (1,),
    capacity: int | str | None = None,
    prepare: object | None = None,
    threads: int | None = None,
) -> Sweep:
    """Simulates every combination of profiles, changes, schedulers, depths and seeds, on all processors.

    `changes` maps keys of profiles to the values to try: `{"ftl.spare": ["7 %", "28 %"]}`. `threads` is the number of
    threads; by default, the number of processors that this process may use. The other arguments are those of
    `simulate`. The results do not depend on the number of threads.
    """
    several: list[Any] = list(profiles) if isinstance(profiles, (list, tuple)) else [profiles]
    names = [schedulers] if isinstance(schedulers, str) else list(schedulers)
    grid = changes or {}
    cells, varied = [], []
    loads = list(requests) if isinstance(requests, (list, tuple)) else requests
    before = list(prepare) if isinstance(prepare, (list, tuple)) else prepare
    for source in several:
        base = profile_of(source)
        for values in itertools.product(*grid.values()):
            chosen = dict(zip(grid, values, strict=True))
            model = base.changed(chosen) if chosen else base
            for scheduler, depth, seed in itertools.product(names, list(depths), list(seeds)):
                cells.append((model._native, scheduler, depth, seed))
                at = {"profile": base.name, **chosen, "scheduler": scheduler, "depth": depth, "seed": seed}
                varied.append(at)
    if not cells:
        raise ValueError("a sweep needs at least one profile, scheduler, depth and seed")
    count = threads or len(os.sched_getaffinity(0))
    size = None if capacity is None else str(capacity)
    results, seconds = _fonio.sweep(cells, loads, size, before, count)
    summaries = [json.loads(text) for text, _ in results]
    return Sweep(summaries, varied, seconds, [used for _, used in results])
