"""The report as text."""

from __future__ import annotations

from .answers import Benchmarked, Culprit, Report, Unknown, Wear
from .questions import NAMES, describe
from .statistics import FAMILY_ERROR, RATIO_MIN

#: The quantities of StoreBench, with their units.
_QUANTITIES = {
    "random read time": "random read of 4 KiB {:.3g} ms",
    "random write time": "random write of 4 KiB {:.3g} ms",
    "synchronous write time": "write of 4 KiB and fdatasync {:.3g} ms",
    "long write time": "long write {:.3g} MB/s at its end",
}


def benchmarked(report: Report) -> dict[tuple[str, str], list[Benchmarked]]:
    """Returns the medians of StoreBench by disk model and comparison key."""
    found: dict[tuple[str, str], list[Benchmarked]] = {}
    for row in report.benchmarked:
        found.setdefault((row.disk_model, row.comparison), []).append(row)
    return found


def quantity(row: Benchmarked) -> str:
    """Returns a median of StoreBench with its unit."""
    return _QUANTITIES[row.quantity].format(row.median)


def sentence(culprit: Culprit) -> str:
    """Returns a culprit as a sentence with its numbers."""
    found = culprit.comparison
    times = f"{culprit.measure} × {found.ratio:.2f} ({found.least:.2f} to {found.most:.2f})"
    if culprit.from_levels is not None:
        before = " and ".join(culprit.from_levels)
        told = (
            f"{_capital(describe(culprit))} after {before}: {times}. {found.devices:,} updated devices were "
            f"compared with {found.others:,} of the same kind that kept {before}"
        )
    else:
        told = (
            f"{_capital(describe(culprit))}: {times}. {found.devices:,} devices with it were compared with "
            f"{found.others:,} of the same kind without it"
        )
    told += f"; {culprit.devices_now:,} have it now."
    if culprit.since_range is not None and culprit.from_levels is not None:
        told += (
            f" The updates were between {culprit.since_range[0]} and {culprit.since_range[1]}, half of them by the "
            f"week of {culprit.since}."
        )
    elif culprit.since_range is not None:
        told += (
            f" It began in the week of {culprit.since} (between {culprit.since_range[0]} and {culprit.since_range[1]})."
        )
    elif culprit.since is not None:
        told += f" It was so in the first week with enough devices to see it ({culprit.since})."
    if culprit.inseparable:
        told += f" It cannot be told apart from {', '.join(culprit.inseparable)}."
    return told


def unknown_sentence(unknown: Unknown) -> str:
    """Returns a comparison that is not possible as a sentence."""
    return f"{_capital(unknown.factor)} {unknown.level} ({unknown.devices:,} devices): unknown, because {unknown.why}."


def wear_sentence(wear: Wear | None) -> str:
    """Returns when the first disks will be worn out."""
    if wear is None:
        return "No disk has a life time register that says something, so the wear is unknown."
    told = f"{wear.disks:,} disks report their wear"
    told += f"; {wear.worn:,} are worn out." if wear.worn else "."
    if wear.earliest is None and wear.latest is None:
        return told + f" Fewer than {wear.rank} have a date at which they will be worn out."
    begin = wear.earliest or wear.latest
    when = (
        f"by {begin}"
        if wear.latest == begin
        else f"between {begin} and {wear.latest}"
        if wear.latest
        else f"on {begin} or later"
    )
    models = ", ".join(
        f"{count} {model}" for model, count in sorted(wear.by_model.items(), key=lambda item: (-item[1], item[0]))
    )
    told += f" The first {wear.rank} will be worn out {when}, if they are written as before ({models})."
    if wear.unknown:
        told += f" For {wear.unknown:,} disks the date is unknown."
    return told


def verdict(report: Report) -> str:
    """Returns the answer in one sentence."""
    culprits = [culprit for culprit in report.culprits if culprit.devices_now]
    if report.culprits and not culprits:
        return "Nothing to blame now: what was worse (see below) is no longer on any device."
    if not culprits:
        return (
            f"Nothing to blame: in {report.comparisons:,} comparisons, no version, system or batch of disks makes the "
            f"devices worse by {RATIO_MIN - 1:.0%} or more."
        )
    names: list[str] = []
    for culprit in culprits:
        name = f"{describe(culprit)} ({culprit.devices_now:,} devices)"
        if name not in names:
            names.append(name)
    return f"To blame: {', '.join(names)}."


def lines(report: Report) -> list[str]:
    """Returns the lines of the report."""
    out = [verdict(report), ""]
    out.append(
        f"{report.devices_now:,} of {report.devices:,} devices in the {report.weeks} weeks to {report.last_day}; "
        f"{report.device_days:,} device-days since {report.first_day}."
    )
    _section(out, "Worse, all else equal", [sentence(culprit) for culprit in report.culprits])
    _section(out, "Better, all else equal", [sentence(culprit) for culprit in report.better])
    _section(out, "Unknown", [unknown_sentence(unknown) for unknown in report.unknown])
    suffering = [row for row in report.sufferers if row.suffering]
    _section(
        out,
        "Devices with a stall a day or more",
        [
            f"{NAMES[row.factor]} {row.level}: {row.suffering:,} of {row.devices:,} ({row.share:.1%}; "
            f"{row.share_least:.1%} to {row.share_most:.1%}), {row.stalled_s_a_day:.1f} s a day on average"
            for row in suffering[:20]
        ],
    )
    _section(
        out,
        "Causes of stalls",
        [
            f"{row['unit']}: {row['cause']}{' ' + row['culprit'] if row['culprit'] else ''}, "
            f"{row['stalled_ms'] / 1000:,.0f} s on {row['devices']:,} devices"
            for row in report.stall_causes[:8]
        ],
    )
    _section(
        out,
        "Units that write most",
        [
            f"{row['unit']}: {row['written_bytes'] / row['device_days'] / 1e6:,.0f} MB a day on "
            f"{row['devices']:,} devices"
            + (f", {row['written_bytes'] / report.written_bytes:.0%} of all bytes" if report.written_bytes else "")
            for row in report.writers[:8]
        ],
    )
    _section(
        out,
        f"Outliers ({report.outliers_in_all:,} devices)",
        [
            f"{row.device} ({row.model}, {row.disk_model}): {row.measure} {row.times_median:.1f} times "
            f"the median; {row.why}"
            for row in report.outliers[:10]
        ],
    )
    _section(
        out,
        "Results of StoreBench (medians of devices)",
        [
            f"{model} ({comparison}), {max(row.devices for row in rows):,} devices: {', '.join(map(quantity, rows))}"
            for (model, comparison), rows in list(benchmarked(report).items())[:12]
        ],
    )
    _section(
        out,
        f"Behind others of their kind in StoreBench ({report.behind_in_all:,} devices)",
        [
            f"{row.device} ({row.model}, {row.disk_model}): {row.measure} {row.times_median:.1f} times "
            f"the median; {row.why}"
            for row in report.behind[:10]
        ],
    )
    _section(out, "Wear", [wear_sentence(report.wear)])
    _section(out, "Left out", report.problems)
    out += [
        "",
        f"{report.comparisons:,} comparisons; intervals are correct together at {1 - FAMILY_ERROR:.0%}. "
        f"Devices are the sampling unit. Engine: {report.engine}.",
    ]
    return out


def _section(out: list[str], title: str, rows: list[str]) -> None:
    if rows:
        out += ["", title, *(f"  {row}" for row in rows)]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
