"""Runs the SQL of a fleet, and turns its counts into answers.

Two designs find what makes devices worse, and both compare devices only with devices of the same kind:

- *Between devices* (`levels`): in the window, devices with an attribute against devices with all other attributes
  equal.
- *Within devices* (`changes`): how devices changed at an update, against devices that were not updated in the same
  week.

All comparisons of a report are correct together. A culprit is named only if its complete interval is above 1.05 times.
"""

from __future__ import annotations

import datetime
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

from .answers import Benchmarked, Culprit, Outlier, Report, Sufferers, Unknown, Wear
from .engines import Engine, query, text
from .problems import FleetError, Problems
from .statistics import (
    BINS_PER_OCTAVE,
    DEVICES_MIN,
    Shifted,
    Stratum,
    compare,
    critical_z,
    find_step,
    ratio,
    share_interval,
)
from .table import Snapshot

EPOCH = datetime.date(1970, 1, 1)
#: Days before this one are of a clock that was not set: no device watched by fonio is older.
FIRST_VALID = (datetime.date(2020, 1, 1) - EPOCH).days
#: The last day has at least this part (1 / N) of the rows of the fullest day.
LAST_DAY_SHARE = 10
#: The length of the window, in weeks.
WEEKS = 4

#: The attributes of a device, in the order of the columns of the counts.
ATTRIBUTES = ("model", "kernel", "os", "disk_model", "disk_firmware", "disk_made")
#: The attributes that can be a culprit, and those that must be equal in a comparison. Models of devices and disks are
#: not among them: they differ for good reasons. The month of manufacture is left out for other factors, because there
#: are many months, and because firmware follows it. A version of a disk's firmware, and a month of manufacture, mean
#: something only together with the model of the disk, so `firmware` and `batch` contain it.
_BETWEEN: dict[str, tuple[str, ...]] = {
    "firmware": ("model", "kernel", "os", "disk_model"),
    "kernel": ("model", "os", "firmware"),
    "os": ("model", "kernel", "firmware"),
    "batch": ("model", "kernel", "os", "firmware"),
}
#: The columns of each of these attributes.
_COLUMNS = {
    "firmware": ("disk_model", "disk_firmware"),
    "kernel": ("kernel",),
    "os": ("os",),
    "batch": ("disk_model", "disk_made"),
}
#: The attributes in a `kind` of `weeks`, in their order.
_KEY = ("model", "disk_model", "disk_firmware", "kernel", "os")
#: The attributes of a key that an update changes, with their names as factors.
_UPDATED = {"disk_firmware": "firmware", "kernel": "kernel", "os": "os"}

NAMES = {
    "model": "model",
    "kernel": "kernel",
    "os": "system",
    "disk_model": "disk model",
    "firmware": "disk firmware",
    "batch": "batch of disks",
}
#: The groups whose devices that stall are counted.
_GROUPS = ("model", "disk_model", "firmware", "kernel", "os")
UNKNOWN = "?"
#: The counts of at most this number of values of devices are in memory at once.
VALUES_AT_ONCE = 100_000
#: The number of worn disks whose date the report gives.
WORN_RANK = 100

#: The causes of stalls, as `fonio watch` names them.
_CAUSES = {
    "behind": "behind the requests of another program",
    "slow-request": "single requests that were slow in the disk",
    "own-syncs": "a program's waits for its own syncs",
    "own-requests": "a program's waits for its own requests",
    "no-request": "waits while the disk was idle, such as for a lock",
    "unknown": "of unknown cause",
}

_REASONS = {
    "no-name": "the row names no device or disk",
    "wrong-clock": "the day is in the future or before 2020, so the clock was wrong",
    "negative": "a count is negative",
    "longer-than-a-day": "the device was watched for longer than a day",
    "faster-than-a-bus": "more bytes than a bus can carry in this time",
    "busier-than-time": "the disk was busy for longer than it was watched",
    "more-slow-than-all": "more slow requests than requests",
    "slower-than-an-hour": "the mean response time is above an hour",
    "impossible-wear": "the life time register has a value that does not exist",
    "impossible-figure": "the value of a figure does not exist",
    "duplicate": "the same result and figure was sent before",
}


def answer(snapshot: Snapshot, engine: Engine, today: datetime.date, weeks: int = WEEKS) -> Report:
    """Runs all questions over a snapshot."""
    snapshot.give(engine)
    engine.define(
        "checked_days", query("checked_days", today=(today - EPOCH).days, first_valid=FIRST_VALID), keep=False
    )
    problems = snapshot.problems
    used = _refused(engine, problems)
    last_day = used["last_day"]
    window = {"last_day": last_day, "weeks": weeks}
    first_week = math.floor((used["first_day"] - last_day - 1) / 7)
    step = engine.weeks_at_once or -first_week
    parts = [{"from_week": begin, "to_week": min(begin + step, 0)} for begin in range(first_week, 0, step)]
    engine.define_parts("week_sums", [query("week_sums", **window, **part) for part in parts])
    engine.define("weeks", query("weeks"), keep=True)
    engine.define("period", query("period", **window), keep=True)
    engine.define("device_values", query("values"), keep=True)
    size = engine.rows(query("fleet", **window))[0]
    if copies := used["row_count"] - size["device_days"]:
        problems.add("duplicate", "the same device, day and disk was sent before", "", copies, "rows")
    engine.define(
        "checked_results", query("checked_results", today=(today - EPOCH).days, first_valid=FIRST_VALID), keep=True
    )
    for row in engine.rows(query("refused_results")):
        reason = row["refused"]
        problems.add(
            f"result-{reason}", _REASONS[reason], f"device {row['example']}", row["row_count"], "result figures"
        )
    engine.define("result_values", query("result_values"), keep=True)
    engine.define("result_changes", query("result_changes"), keep=True)
    units = [row["unit"] for row in engine.rows(query("top_units", **window)) if row["devices"] >= DEVICES_MIN][:12]
    quoted = ", ".join(map(text, units)) or "''"
    engine.define_parts("unit_weeks", [query("unit_weeks", units=quoted, **window, **part) for part in parts])

    engine.define("unit_values", query("unit_values", **window), keep=True)
    within, updates_unknown = _change_strata(chain(engine.each(query("changes")), engine.each(query("unit_changes"))))
    engine.define("measured", query("measured"), keep=False)
    # The counts of few measures are in memory at a time. The number of all comparisons decides the bound of each, so
    # the counts are read twice.
    parts_of_measures = _parts(engine.rows(query("measures")))
    levels = _Levels(engine)
    comparisons = len(within) + sum(len(levels.possible(part)) for part in parts_of_measures)
    z_bound = critical_z(comparisons)
    worse, better = _within(within, z_bound, last_day)
    told = {
        (factor, level, culprit.measure)
        for culprit in worse + better
        for factor, level in zip(culprit.factors, culprit.levels, strict=True)
    }
    more_worse: list[Culprit] = []
    more_better: list[Culprit] = []
    for part in parts_of_measures:
        possible = {key: strata for key, strata in levels.possible(part).items() if key not in told}
        found = _between(levels, possible, z_bound)
        more_worse += found[0]
        more_better += found[1]
    culprits = worse + sorted(more_worse, key=_order)
    better += sorted(more_better, key=_order)
    present = list(map(_named, engine.rows(query("suffers"))))
    for culprit in culprits + better:
        pairs = list(zip(culprit.factors, culprit.levels, strict=True))
        culprit.devices_now = sum(
            row["devices"] for row in present if all(row[factor] == level for factor, level in pairs)
        )
    for culprit in culprits:
        # Results of StoreBench are too rare for weekly values.
        if culprit.from_levels is None and not culprit.measure.startswith("StoreBench "):
            _since(engine, culprit, last_day)
    outliers = engine.rows(query("outliers", table="device_values"))
    behind = engine.rows(query("outliers", table="result_values")) + engine.rows(
        query("outliers", table="result_changes")
    )
    behind.sort(key=lambda row: (row["median"] - row["bin"], row["device"], row["measure"]))
    return Report(
        place=snapshot.location.place,
        engine=engine.name,
        first_day=_date(used["first_day"]),
        last_day=_date(last_day),
        weeks=weeks,
        devices=size["devices"],
        devices_now=size["devices_now"],
        device_days=size["device_days"],
        device_days_now=size["device_days_now"],
        written_bytes=size["written_bytes_now"] or 0,
        files=sum(map(len, snapshot.files.values())) + len(snapshot.arrived) + len(snapshot.recordings),
        file_bytes=snapshot.file_bytes,
        comparisons=comparisons,
        z_bound=z_bound,
        culprits=culprits,
        better=better,
        unknown=_unknown_levels(present) + updates_unknown,
        sufferers=_sufferers(present),
        stall_causes=engine.rows(query("stall_causes", **window)),
        writers=engine.rows(query("writers", units=quoted, **window)),
        outliers=_outliers(engine, outliers, culprits, window),
        outliers_in_all=len({row["device"] for row in outliers}),
        wear=_wear(engine.rows(query("wear"))),
        benchmarked=[Benchmarked(**row) for row in engine.rows(query("benched"))],
        behind=_behind(behind, culprits),
        behind_in_all=len({row["device"] for row in behind}),
        problems=problems.texts(),
    )


def _named(row: dict) -> dict:
    """Adds the attributes that consist of two columns."""
    for name in ("firmware", "batch"):
        values = [row.get(column, UNKNOWN) for column in _COLUMNS[name]]
        row[name] = UNKNOWN if UNKNOWN in values else " ".join(values)
    return row


def _date(day: int) -> datetime.date:
    return EPOCH + datetime.timedelta(days=int(day))


def _monday(week: int, last_day: int) -> datetime.date:
    """Returns the first day of a week; week -1 ends with the last day."""
    return _date(last_day + 1 + 7 * week)


def _refused(engine: Engine, problems: Problems) -> dict:
    """Counts the rows that are left out. Returns the first and last day, and the number of rows in use."""
    used: dict[int, int] = {}
    later: dict[int, str] = {}
    for row in engine.rows(query("refused")):
        if row["refused"] is not None:
            problems.add(row["refused"], _REASONS[row["refused"]], f"device {row['example']}", row["row_count"], "rows")
        else:
            used[row["day_number"]] = row["row_count"]
            later[row["day_number"]] = row["example"]
    if not used:
        raise FleetError(f"no row of this fleet can be used: {'; '.join(problems.texts())}")
    # A few devices whose clocks are ahead must not decide which days are the last ones.
    most = max(used.values())
    last_day = max(day for day, count in used.items() if count * LAST_DAY_SHARE >= most)
    for day in [day for day in used if day > last_day]:
        problems.add(
            "later",
            f"the day is later than {_date(last_day)}, the last day with a tenth of the devices of the fullest day",
            f"device {later[day]}",
            used.pop(day),
            "rows",
        )
    return {"first_day": min(used), "last_day": last_day, "row_count": sum(used.values())}


def _parts(measures: list[dict]) -> list[list[str]]:
    """Returns measures in groups that have at most `VALUES_AT_ONCE` values, or one measure."""
    parts: list[list[str]] = []
    size = 0
    for row in measures:
        if not parts or size + row["value_count"] > VALUES_AT_ONCE:
            parts.append([])
            size = 0
        parts[-1].append(row["measure"])
        size += row["value_count"]
    return parts


class _Levels:
    """The counts of devices in bins of measures, by all attributes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._last: tuple[list[str], dict[tuple[str, str, str], list[Stratum]]] = ([], {})

    def rows(self, measures: list[str]) -> Iterator[dict]:
        return map(_named, self._engine.each(query("levels", measures=", ".join(map(text, measures)))))

    def possible(self, measures: list[str]) -> dict[tuple[str, str, str], list[Stratum]]:
        """Returns the strata of the comparisons between devices that have enough devices. The last ones are kept."""
        if self._last[0] != measures:
            self._last = ([], {})
            strata = _level_strata(self.rows(measures))
            self._last = (measures, {key: strata for key, strata in strata.items() if _is_possible(strata)})
        return self._last[1]


def _order(culprit: Culprit) -> tuple:
    """Sorts culprits: the clearest first."""
    return (-abs(culprit.comparison.z), culprit.key)


def _is_possible(strata: list[Stratum]) -> bool:
    used = [stratum for stratum in strata if stratum.group and stratum.others]
    return (
        sum(sum(stratum.group.values()) for stratum in used) >= DEVICES_MIN
        and sum(sum(stratum.others.values()) for stratum in used) >= DEVICES_MIN
    )


def _level_strata(rows: Iterable[dict]) -> dict[tuple[str, str, str], list[Stratum]]:
    """Returns the strata of each comparison between devices, by factor, level and measure."""
    counted: dict = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for row in rows:
        for factor, equal in _BETWEEN.items():
            if row[factor] != UNKNOWN:
                stratum = (factor, row["measure"], *(row[name] for name in equal))
                counted[stratum][row[factor]][row["bin"]] += row["devices"]
    found: dict[tuple[str, str, str], list[Stratum]] = defaultdict(list)
    for (factor, measure, *_), by_level in counted.items():
        total: dict[int, int] = defaultdict(int)
        for bins in by_level.values():
            for bin, devices in bins.items():
                total[bin] += devices
        for level, group in by_level.items():
            others = {bin: devices - group.get(bin, 0) for bin, devices in total.items() if devices > group.get(bin, 0)}
            found[factor, level, measure].append(Stratum(group, others))
    return found


def _between(levels: _Levels, possible: dict, z_bound: float) -> tuple[list[Culprit], list[Culprit]]:
    """Names levels that are worse between devices: the clearest first, and then only what is left without it."""
    worse: list[Culprit] = []
    better: list[Culprit] = []
    for (factor, level, measure), strata in possible.items():
        found = compare(strata, z_bound)
        if found is not None and (found.is_worse or found.is_better):
            (worse if found.is_worse else better).append(Culprit([factor], [level], None, measure, found))
    worse.sort(key=_order)
    named: list[Culprit] = []
    while worse:
        first = worse.pop(0)
        named.append(first)
        factor, level = first.factors[0], first.levels[0]
        rivals = [other.key for other in worse if other.factors[0] != factor and other.measure == first.measure]
        if not rivals:
            continue
        left = _level_strata(row for row in levels.rows([first.measure]) if row[factor] != level)
        kept = []
        for other in worse:
            strata = left.get((other.factors[0], other.levels[0], other.measure), [])
            if other.key not in rivals:
                kept.append(other)
            elif not _is_possible(strata):
                first.inseparable.append(describe(other))
            elif (again := compare(strata, z_bound)) is not None and again.is_worse:
                kept.append(other)
        worse = kept
    # If a level is worse, the others are better than it: only the worse level is named.
    named_factors = {(culprit.factors[0], culprit.measure) for culprit in named}
    return named, [culprit for culprit in better if (culprit.factors[0], culprit.measure) not in named_factors]


def _change_strata(rows: Iterable[dict]) -> tuple[dict, list[Unknown]]:
    """Returns the strata of each update, by changed attributes and measure, and the updates without a control."""
    controls: dict = defaultdict(lambda: defaultdict(int))
    updated: dict = defaultdict(lambda: defaultdict(int))
    known: dict[tuple[str, str], tuple | None] = {}
    for row in rows:
        kind, target = row["from_key"], row["to_key"]
        if kind == target:
            controls[row["week"], kind, row["measure"]][row["bin"]] += row["devices"]
            continue
        if (kind, target) not in known:
            known[kind, target] = _update(kind, target)
        if (update := known[kind, target]) is not None:
            updated[update, row["measure"], row["week"], kind][row["bin"]] += row["devices"]
    found: dict = defaultdict(list)
    for (update, measure, week, kind), group in updated.items():
        found[update, measure].append((week, Stratum(group, controls.get((week, kind, measure), {}))))
    possible = {key: strata for key, strata in found.items() if _is_possible([stratum for _, stratum in strata])}
    unknown, seen = [], set()
    for (update, _), strata in sorted(found.items()):
        devices = sum(sum(stratum.group.values()) for _, stratum in strata)
        is_possible = any(key[0] == update for key in possible)
        if not is_possible and update not in seen and devices >= DEVICES_MIN:
            seen.add(update)
            changed, origin, target = update
            unknown.append(
                Unknown(
                    " and ".join(NAMES[name] for name in changed),
                    f"{' and '.join(origin)} to {' and '.join(target)}",
                    devices,
                    "in the weeks of the update, too few devices of the same kind kept the old version to compare with",
                )
            )
    return possible, unknown


def _update(from_key: str, to_key: str) -> tuple | None:
    """Returns the factors that an update changed, with their old and new values; `None` if it can have no culprit."""
    origin, target = (dict(zip(_KEY, key.split("|"), strict=True)) for key in (from_key, to_key))
    changed = [name for name in _KEY if origin[name] != target[name]]
    if not set(changed) <= set(_UPDATED) or UNKNOWN in {
        versions[name] for name in changed for versions in (origin, target)
    }:
        return None
    factors = tuple(_UPDATED[name] for name in changed)
    return (factors, *(tuple(_named(versions)[name] for name in factors) for versions in (origin, target)))


def _within(possible: dict, z_bound: float, last_day: int) -> tuple[list[Culprit], list[Culprit]]:
    worse: list[Culprit] = []
    better: list[Culprit] = []
    for ((changed, origin, target), measure), strata in possible.items():
        found = compare([stratum for _, stratum in strata], z_bound)
        if found is None or not (found.is_worse or found.is_better):
            continue
        weeks = sorted((week, sum(stratum.group.values())) for week, stratum in strata if stratum.others)
        half, seen, middle = sum(count for _, count in weeks) / 2, 0, weeks[0][0]
        for week, count in weeks:
            seen += count
            if seen >= half:
                middle = week
                break
        days = (_monday(weeks[0][0], last_day), _monday(weeks[-1][0], last_day) + datetime.timedelta(days=6))
        culprit = Culprit(list(changed), list(target), list(origin), measure, found, _monday(middle, last_day), days)
        (worse if found.is_worse else better).append(culprit)
    return sorted(worse, key=_order), sorted(better, key=_order)


def _unknown_levels(rows: list[dict]) -> list[Unknown]:
    """Returns levels that no other device of the same kind can be compared with."""
    strata = _level_strata({**row, "measure": "any", "bin": 0} for row in rows)
    found = []
    for (factor, level, _), parts in sorted(strata.items()):
        devices = sum(sum(stratum.group.values()) for stratum in parts)
        if devices >= DEVICES_MIN and not _is_possible(parts):
            found.append(
                Unknown(
                    NAMES[factor],
                    level,
                    devices,
                    "too few other devices agree in everything else, so its effect cannot be told apart from theirs",
                )
            )
    return found


def _since(engine: Engine, culprit: Culprit, last_day: int) -> None:
    """Finds since when a level is worse: a step in its weekly distance from devices of the same kind."""
    factor, level = culprit.factors[0], culprit.levels[0]
    equal = [column for name in _BETWEEN[factor] for column in _COLUMNS.get(name, (name,))]
    chosen = {"factor": _expression(factor), "level": text(level), "equal": ", ".join(equal)}
    unit = culprit.measure.removeprefix("bytes written by ")
    if unit != culprit.measure:
        rows = engine.each(query("unit_since", **chosen, unit=text(unit)))
    else:
        rows = engine.each(query("since", **chosen, measure=text(culprit.measure)))
    counted: dict = defaultdict(lambda: ({}, {}))
    for row in rows:
        key = (row["week"], *(row[column] for column in equal))
        bins = counted[key][0 if row["is_level"] else 1]
        bins[row["bin"]] = bins.get(row["bin"], 0) + row["devices"]
    weekly: dict[int, list[Stratum]] = defaultdict(list)
    for (week, *_), (group, others) in counted.items():
        if group and others:
            weekly[week].append(Stratum(group, others))
    series = {}
    for week, strata in weekly.items():
        shifted = Shifted(strata)
        if min(shifted.devices, shifted.others) >= DEVICES_MIN:
            series[week] = float(shifted.last_above(0.0))
    size = math.log2(culprit.comparison.ratio) * BINS_PER_OCTAVE
    step = find_step(series, size_min=size / 2)
    if step is None:
        # It was never better: the first week with enough devices to see it.
        culprit.since = _monday(min(series), last_day) if series else None
    else:
        culprit.since = _monday(step.week, last_day)
        culprit.since_range = (_monday(step.first, last_day), _monday(step.last, last_day) + datetime.timedelta(days=6))


def _expression(factor: str) -> str:
    columns = _COLUMNS[factor]
    return columns[0] if len(columns) == 1 else f"concat({columns[0]}, ' ', {columns[1]})"


def _sufferers(rows: list[dict]) -> list[Sufferers]:
    found = []
    for factor in _GROUPS:
        sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for row in map(_named, rows):
            total = sums[row[factor]]
            for place, name in enumerate(("devices", "suffering", "stalled_ms", "watched_s")):
                total[place] += row[name] or 0
        for level, (devices, suffering, stalled_ms, watched_s) in sums.items():
            least, most = share_interval(suffering, devices)
            a_day = stalled_ms / 1000 / (watched_s / 86400) if watched_s else 0.0
            found.append(Sufferers(factor, level, devices, suffering, suffering / devices, least, most, a_day))
    order = _GROUPS.index
    return sorted(found, key=lambda row: (order(row.factor), -row.share, row.level))


def _outliers(engine: Engine, rows: list[dict], culprits: list[Culprit], window: dict) -> list[Outlier]:
    # One row for each device: the measure in which it is farthest from the others.
    first: dict[str, dict] = {}
    for row in rows:
        first.setdefault(row["device"], row)
    chosen = list(first.values())[:20]
    if not chosen:
        return []
    devices = ", ".join(text(row["device"]) for row in chosen)
    causes = {row["device"]: row for row in engine.rows(query("outlier_causes", devices=devices, **window))}
    writers = {row["device"]: row for row in engine.rows(query("outlier_writers", devices=devices, **window))}
    found = []
    for row in map(_named, chosen):
        why = _why(row, culprits, causes.get(row["device"]), writers.get(row["device"]))
        times = ratio(row["bin"] - row["median"])
        found.append(Outlier(row["device"], row["measure"], row["model"], row["disk_model"], times, why))
    return found


def _behind(rows: list[dict], culprits: list[Culprit]) -> list[Outlier]:
    first: dict[str, dict] = {}
    for row in rows:
        first.setdefault(row["device"], _named(row))
    return [
        Outlier(
            row["device"],
            row["measure"],
            row["model"],
            row["disk_model"],
            ratio(row["bin"] - row["median"]),
            _why(row, culprits, None, None),
        )
        for row in list(first.values())[:20]
    ]


def _why(row: dict, culprits: list[Culprit], cause: dict | None, writer: dict | None) -> str:
    for culprit in culprits:
        if culprit.measure == row["measure"] and all(
            row[f] == level for f, level in zip(culprit.factors, culprit.levels, strict=True)
        ):
            return f"it has {describe(culprit)}"
    if row["measure"] == "written bytes" and writer and writer["written_in_all"]:
        share = writer["written_bytes"] / writer["written_in_all"]
        if share >= 0.5:
            return f"{writer['unit']} writes {share:.0%} of the bytes"
    if cause and cause["stalled_ms_in_all"]:
        share = cause["stalled_ms"] / cause["stalled_ms_in_all"]
        behind = f": {cause['culprit']}" if cause["culprit"] else ""
        if share >= 0.5:
            return f"{share:.0%} of its stalled time is {_CAUSES.get(cause['cause'], cause['cause'])}{behind}"
    return "unknown"


def describe(culprit: Culprit) -> str:
    """Returns the attributes of a culprit, such as `disk firmware 1.7`."""
    return " and ".join(map(_described, culprit.factors, culprit.levels))


def _described(factor: str, level: str) -> str:
    if factor == "batch":
        model, _, month = level.rpartition(" ")
        return f"disks {model} made in {month}"
    return f"{NAMES[factor]} {level}"


def _wear(rows: list[dict]) -> Wear | None:
    disks = sum(row["disks"] for row in rows)
    if not disks:
        return None
    unknown = sum(row["disks"] for row in rows if row["earliest"] is None)

    def reached(name: str) -> tuple[datetime.date | None, dict[str, int]]:
        seen = 0
        by_model: dict[str, int] = defaultdict(int)
        for row in sorted(
            (row for row in rows if row[name] is not None), key=lambda row: (row[name], row["disk_model"])
        ):
            by_model[row["disk_model"]] += min(row["disks"], WORN_RANK - seen)
            seen += row["disks"]
            if seen >= WORN_RANK:
                # A date of more than a century is not a date that anyone plans for.
                return (_date(row[name]) if row[name] < 80_000 else None), dict(by_model)
        return None, {}

    earliest, by_model = reached("earliest")
    latest, _ = reached("latest")
    return Wear(disks, sum(row["worn"] for row in rows), unknown, WORN_RANK, earliest, latest, by_model)
