"""The report as one static HTML page, without scripts and without anything from other servers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from .answers import Culprit, Report
from .questions import NAMES, describe
from .statistics import FAMILY_ERROR, RATIO_MIN
from .text import benchmarked, quantity, sentence, unknown_sentence, verdict, wear_sentence

#: The longest label of the chart, in characters.
LABEL_MAX = 60

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6773; --line: #d5dbe1; --back: #ffffff; --card: #f5f7f9;
  --bad: #b3261e; --good: #1b6e3c; --bar: #3b6ea8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ed; --soft: #9aa7b3; --line: #3a444e; --back: #14191f;
  --card: #1d242c; --bad: #ff8a80; --good: #7fd6a0; --bar: #7fb0e6; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
  margin: 0 auto; padding: 24px; max-width: 1040px; }
h1 { font-size: 1.5rem; margin: 0 0 4px; } h2 { font-size: 1.15rem; margin: 32px 0 8px; }
p { margin: 4px 0 8px; } .soft { color: var(--soft); } .verdict { font-size: 1.2rem; font-weight: 600; margin: 16px 0; }
.bad { color: var(--bad); } .good { color: var(--good); }
.facts { display: flex; flex-wrap: wrap; gap: 12px; margin: 16px 0; }
.facts div { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 8px 16px; }
.facts b { display: block; font-size: 1.25rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; }
th, td { text-align: left; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
li { margin: 4px 0; } svg { width: 100%; min-width: 720px; height: auto; display: block; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .soft { fill: var(--soft); }
.wide { overflow-x: auto; }
"""


def page(report: Report) -> str:
    """Returns the page."""
    parts = [
        f"<h1>Fleet</h1><p class='soft'>{_text(report.place)}, {report.first_day} to {report.last_day}</p>",
        f"<p class='verdict {'bad' if report.culprits else 'good'}'>{_text(verdict(report))}</p>",
        _facts(report),
    ]
    if report.culprits or report.better:
        parts.append("<h2>What makes devices worse or better, all else equal?</h2>")
        parts.append(_forest(report.culprits + report.better))
        parts.append(_list([sentence(culprit) for culprit in report.culprits + report.better]))
        parts.append(
            f"<p class='soft'>The intervals of all {report.comparisons:,} comparisons are correct together at "
            f"{1 - FAMILY_ERROR:.0%}. A cause is named only if its complete interval is above {RATIO_MIN} times.</p>"
        )
    if report.unknown:
        parts.append("<h2>What do these data not show?</h2>")
        parts.append(_list([unknown_sentence(unknown) for unknown in report.unknown]))
    parts += [_sufferers(report), _causes(report), _writers(report), _outliers(report)]
    parts += [_benchmarked(report), _behind(report)]
    parts.append(f"<h2>When are disks worn out?</h2><p>{_text(wear_sentence(report.wear))}</p>")
    if report.problems:
        parts.append(f"<h2>What was left out?</h2>{_list(report.problems)}")
    body = "\n".join(parts)
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>fonio: fleet</title><style>{_STYLE}</style></head><body>\n{body}\n"
        f"<p class='soft'>Devices are the sampling unit. Engine: {_text(report.engine)}.</p></body></html>\n"
    )


def _text(value: object) -> str:
    return escape("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(value)))


def _list(rows: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(row)}</li>" for row in rows) + "</ul>"


def _facts(report: Report) -> str:
    facts = [
        (f"{report.devices_now:,}", f"devices in the last {report.weeks} weeks"),
        (f"{report.devices:,}", "devices in all"),
        (f"{report.device_days:,}", "device-days"),
        (f"{report.written_bytes / 1e12:,.1f} TB", f"written in the last {report.weeks} weeks"),
    ]
    return (
        "<div class='facts'>"
        + "".join(f"<div><b>{_text(value)}</b>{_text(name)}</div>" for value, name in facts)
        + "</div>"
    )


def _forest(culprits: list[Culprit]) -> str:
    """Returns a chart with one interval for each culprit, on a logarithmic axis."""
    low = min(0.9, *(culprit.comparison.least for culprit in culprits)) * 0.95
    high = max(1.1, *(culprit.comparison.most for culprit in culprits)) * 1.05
    left, width, row_height, top = 460, 500, 30, 8
    height = top + row_height * len(culprits) + 34

    def x(ratio: float) -> float:
        return left + width * math.log(ratio / low) / math.log(high / low)

    bottom = top + row_height * len(culprits)
    out = [
        f"<svg viewBox='0 0 {left + width + 40} {height}' role='img' "
        "aria-label='Intervals of ratios; the list below has the same numbers'>"
    ]
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 1.5, 2, 3, 5, 10, 20, 50, 100) if low <= tick <= high]
    for tick in ticks:
        strong = tick == 1
        out.append(
            f"<line x1='{x(tick):.1f}' y1='{top}' x2='{x(tick):.1f}' y2='{bottom}' "
            f"stroke='var({'--soft' if strong else '--line'})'/>"
            f"<text class='soft' x='{x(tick):.1f}' y='{bottom + 18}' text-anchor='middle'>{tick:g}×</text>"
        )
    for number, culprit in enumerate(culprits):
        found = culprit.comparison
        y = top + row_height * (number + 0.5)
        colour = "--bad" if found.is_worse else "--good"
        # The comparison key of a result of StoreBench is in the list below.
        label = f"{describe(culprit)}: {culprit.measure.partition(' (')[0]}"
        if len(label) > LABEL_MAX:
            label = label[: LABEL_MAX - 1] + "…"
        out.append(
            f"<text x='{left - 12}' y='{y + 4:.1f}' text-anchor='end'>{_text(label)}</text>"
            f"<line x1='{x(found.least):.1f}' y1='{y:.1f}' x2='{x(found.most):.1f}' y2='{y:.1f}' "
            f"stroke='var({colour})' stroke-width='3'/>"
            f"<circle cx='{x(found.ratio):.1f}' cy='{y:.1f}' r='5' fill='var({colour})'/>"
        )
    return f"<div class='wide'>{''.join(out)}</svg></div>"


def _table(heads: list[str], rows: Sequence[Sequence[object]]) -> str:
    """Returns a table; columns whose heads begin with a space are numbers."""
    numbers = [head.startswith(" ") for head in heads]
    cell = lambda tag, value, number: f"<{tag}{' class=n' if number else ''}>{_text(value)}</{tag}>"  # noqa: E731
    head = "".join(cell("th", head.strip(), number) for head, number in zip(heads, numbers, strict=True))
    body = "".join(
        "<tr>" + "".join(cell("td", value, number) for value, number in zip(row, numbers, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _sufferers(report: Report) -> str:
    rows = [
        [
            NAMES[row.factor],
            row.level,
            f"{row.devices:,}",
            f"{row.suffering:,}",
            f"{row.share:.1%}",
            f"{row.share_least:.1%} to {row.share_most:.1%}",
            f"{row.stalled_s_a_day:.1f}",
        ]
        for row in report.sufferers
        if row.suffering
    ]
    if not rows:
        return "<h2>Which devices suffer?</h2><p>No device has a stall a day on average.</p>"
    heads = ["group", "", " devices", " with a stall a day", " share", " interval", " seconds a day"]
    return (
        "<h2>Which devices suffer?</h2>"
        + _table(heads, rows[:30])
        + "<p class='soft'>These groups differ in more than one thing: the first list says what is to blame.</p>"
    )


def _causes(report: Report) -> str:
    if not report.stall_causes:
        return ""
    rows = [
        [
            row["unit"],
            row["cause"],
            row["culprit"] or "",
            f"{row['devices']:,}",
            f"{row['stalls']:,}",
            f"{row['stalled_ms'] / 1000:,.0f}",
        ]
        for row in report.stall_causes[:12]
    ]
    return "<h2>Why do programs wait?</h2>" + _table(
        ["blocked unit", "cause", "behind", " devices", " stalls", " seconds"], rows
    )


def _writers(report: Report) -> str:
    if not report.writers:
        return ""
    rows = [
        [
            row["unit"],
            f"{row['devices']:,}",
            f"{row['written_bytes'] / row['device_days'] / 1e6:,.0f}",
            f"{row['written_bytes'] / max(report.written_bytes, 1):.0%}",
        ]
        for row in report.writers[:12]
    ]
    return "<h2>Which units write most?</h2>" + _table(
        ["unit", " devices", " MB a device and day", " share of all bytes"], rows
    )


def _benchmarked(report: Report) -> str:
    if not report.benchmarked:
        return ""
    rows = [
        [model, comparison, f"{max(row.devices for row in medians):,}", "; ".join(map(quantity, medians))]
        for (model, comparison), medians in list(benchmarked(report).items())[:24]
    ]
    heads = ["disk model", "comparison key", " devices", "medians"]
    return "<h2>How fast are the disks in StoreBench?</h2>" + _table(heads, rows)


def _behind(report: Report) -> str:
    if not report.behind:
        return ""
    rows = [
        [row.device, row.model, row.disk_model, row.measure, f"{row.times_median:.1f}", row.why]
        for row in report.behind
    ]
    shown = f"The first {len(rows)} of {report.behind_in_all:,}." if report.behind_in_all > len(rows) else ""
    heads = ["device", "model", "disk model", "measure", " times the median", "why"]
    return (
        "<h2>Which devices are behind the others of their kind in StoreBench?</h2>"
        + _table(heads, rows)
        + f"<p class='soft'>{shown}</p>"
    )


def _outliers(report: Report) -> str:
    if not report.outliers:
        return ""
    rows = [
        [row.device, row.model, row.disk_model, row.measure, f"{row.times_median:.1f}", row.why]
        for row in report.outliers
    ]
    shown = f"The first {len(rows)} of {report.outliers_in_all:,}." if report.outliers_in_all > len(rows) else ""
    return (
        "<h2>Which devices are far from the others of their kind?</h2>"
        + _table(["device", "model", "disk model", "measure", " times the median", "why"], rows)
        + f"<p class='soft'>{shown}</p>"
    )
