"""Takes the numbers of a chart from the analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# The classes of requests, each with the same colour in all charts (Okabe, Ito 2008: distinguishable without red and
# green).
COLOURS = {
    "all": "#000000",
    "reads": "#0072B2",
    "read": "#0072B2",
    "readahead": "#56B4E9",
    "writes": "#D55E00",
    "write_sync": "#D55E00",
    "write_async": "#E69F00",
    "write_unknown": "#CC79A7",
    "flush": "#009E73",
    "discard": "#F0E442",
    "other": "#999999",
}


@dataclass(frozen=True)
class Chart:
    """A chart before it is drawn."""

    kind: str
    """`step`, `scatter`, `map`, `stacked_bars` or `bars`."""
    title: str
    x: str
    """The title of the horizontal axis, with its unit."""
    y: str
    series: Mapping[str, tuple[Sequence[Any], Sequence[Any]]] = field(default_factory=dict)
    """The values of each series. In a map, the only series has the rows of cells, and the two ranges."""
    log_x: bool = False
    log_y: bool = False
    base_x: int = 10
    """The base of the ticks of a logarithmic horizontal axis."""
    note: str = ""
    """What the reader must know about the numbers."""


def analysis_of(source: Any) -> dict[str, Any]:
    """Returns the analysis of a recording, a report or a simulation."""
    report = source.report() if callable(getattr(source, "report", None)) else source
    if not isinstance(getattr(report, "analysis", None), dict):
        raise TypeError(f"give a Recording, a Report or a Simulation, not {type(source).__name__}")
    return report.analysis


def latencies(analysis: dict[str, Any], time: str) -> Chart:
    if time not in ("response", "service"):
        raise ValueError(f"time must be response or service, not {time!r}")
    series = {}
    for group in analysis["latency"]["groups"]:
        times = group.get(f"{time}_ns") or {}
        cdf, count = times.get("cdf"), times.get("count")
        # `reads` and `writes` are sums of the other groups.
        if group["group"] in ("all", "reads", "writes") or not cdf or not count:
            continue
        milliseconds = [up_to / 1e6 for up_to in cdf["up_to"]]
        series[group["group"]] = (milliseconds, [part / count for part in cdf["cumulative"]])
    missing = "The recording does not show this time." if not series else ""
    axis = "response time, queued to completed (ms)" if time == "response" else "service time, issued to completed (ms)"
    return Chart("step", "How long did requests take?", axis, "share of requests", series, log_x=True, note=missing)


def _points(analysis: dict[str, Any], x: str, x_unit: float, y: str) -> dict[str, Any]:
    series: dict[str, tuple[list[float], list[float]]] = {}
    for point in analysis["points"]["sample"]:
        if point.get(x) is None or not point.get(y):
            continue
        xs, ys = series.setdefault(point["class"], ([], []))
        xs.append(point[x] / x_unit)
        ys.append(point[y] / 1e6)
    return series


def _sampled(analysis: dict[str, Any]) -> str:
    points = analysis["points"]
    drawn, all_of = len(points["sample"]), points["of_requests"]
    return f"A sample of {drawn} of {all_of} requests." if drawn < all_of else ""


def over_time(analysis: dict[str, Any]) -> Chart:
    series = _points(analysis, "at_ns", 1e9, "response_ns") or _points(analysis, "at_ns", 1e9, "service_ns")
    return Chart(
        "scatter", "When did it happen?", "time (s)", "response time (ms)", series, log_y=True, note=_sampled(analysis)
    )


def size_and_latency(analysis: dict[str, Any]) -> Chart:
    return Chart(
        "scatter",
        "How large are the requests, and how does size affect latency?",
        "size (KiB)",
        "service time (ms)",
        {
            name: values
            for name, values in _points(analysis, "bytes", 1024, "service_ns").items()
            if any(size > 0 for size in values[0])
        },
        log_x=True,
        log_y=True,
        base_x=2,
        note=_sampled(analysis),
    )


def _device(devices: list[dict[str, Any]], device: int) -> dict[str, Any]:
    for found in devices:
        if found["device"] == device:
            return found
    known = ", ".join(str(found["device"]) for found in devices) or "none"
    raise ValueError(f"the report has no device {device}; it has {known}")


def addresses(analysis: dict[str, Any], device: int, op: str) -> Chart:
    if op not in ("read", "write"):
        raise ValueError(f"op must be read or write, not {op!r}")
    found = _device((analysis.get("spatial") or {}).get("devices", []), device)
    columns, rows = found["columns"], found["rows"]
    cells = found[f"{op}_bytes"]
    # The analysis stores the map row by row.
    kibibytes = [[cell / 1024 for cell in cells[row * columns : (row + 1) * columns]] for row in range(rows)]
    start = found["start_ns"] / 1e9
    times = (start, start + columns * found["column_ns"] / 1e9)
    first = found["first_sector"] * 512 / 1e9
    places = (first, first + rows * found["row_sectors"] * 512 / 1e9)
    title = f"Which addresses were {'read' if op == 'read' else 'written'}?"
    return Chart("map", title, "time (s)", "address (GB)", {"KiB": (kibibytes, (times, places))})


def waits(analysis: dict[str, Any]) -> Chart:
    blocked = analysis.get("blocked")
    series: dict[str, tuple[list[str], list[float]]] = {}
    if blocked and blocked["programs"]:
        programs = blocked["programs"][:12]
        for operation in sorted({one["blocked_in"] for program in programs for one in program["operations"]}):
            seconds = [
                sum(one["time_ns"] for one in program["operations"] if one["blocked_in"] == operation) / 1e9
                for program in programs
            ]
            series[operation] = ([program["name"] for program in programs], seconds)
        return Chart("stacked_bars", "Who waited, and for what?", "blocked on storage (s)", "", series)
    names = [process["name"] for process in analysis["processes"]["processes"]]
    processes = (analysis.get("outstanding") or {}).get("processes", [])[:12]
    at = [names[one["process"]] if one["process"] < len(names) else "unknown" for one in processes]
    series["in flight"] = (at, [one["time"]["ns"] / 1e9 for one in processes])
    note = "The recording does not show blocked threads. Shown: the time with requests of the process in flight."
    return Chart("stacked_bars", "Who may have waited?", "time with own requests in flight (s)", "", series, note=note)


def depths(analysis: dict[str, Any], device: int) -> Chart:
    found = _device((analysis.get("queueing") or {}).get("devices", []), device)
    times = found["time_at_depth_ns"]
    total = sum(times) or 1
    series = {"all": (list(range(len(times))), [time / total for time in times])}
    return Chart("bars", "How many requests were in flight?", "requests in flight", "share of time", series)
