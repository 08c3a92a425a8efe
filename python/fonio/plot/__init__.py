"""Charts of a report, each named for the question that it answers.

Each function takes a `Recording`, a `Report` or a `Simulation`, and a `backend`: `matplotlib` (returns a `Figure`) or
`altair` (returns a chart). The charts show the numbers of the report (`Report.analysis`), so a chart of a large
recording needs no more memory than its report.
"""

from __future__ import annotations

import importlib
from typing import Any

from fonio.plot import data

__all__ = [
    "how_large_are_requests_and_how_long_do_they_take",
    "how_long_did_requests_take",
    "how_many_requests_were_in_flight",
    "when_did_it_happen",
    "where_on_the_device",
    "who_waited",
]


def _drawn(chart: Any, backend: str) -> Any:
    if backend not in ("matplotlib", "altair"):
        raise ValueError(f"backend must be matplotlib or altair, not {backend!r}")
    return importlib.import_module(f"fonio.plot.with_{backend}").draw(chart)


def how_long_did_requests_take(source: Any, *, time: str = "response", backend: str = "matplotlib") -> Any:
    """Draws the share of requests (vertical) that took at most a time (horizontal): an ECDF for each class.

    `time` is `response` (queued to completed) or `service` (issued to completed).
    """
    return _drawn(data.latencies(data.analysis_of(source), time), backend)


def when_did_it_happen(source: Any, *, backend: str = "matplotlib") -> Any:
    """Draws each request of the report's sample at its time, with its response time: latency over time."""
    return _drawn(data.over_time(data.analysis_of(source)), backend)


def how_large_are_requests_and_how_long_do_they_take(source: Any, *, backend: str = "matplotlib") -> Any:
    """Draws each request of the report's sample with its size and its service time: size against latency."""
    return _drawn(data.size_and_latency(data.analysis_of(source)), backend)


def where_on_the_device(source: Any, *, device: int = 0, op: str = "write", backend: str = "matplotlib") -> Any:
    """Draws the bytes that were accessed at each address and time, as a map of one device.

    `device` is the place of the device in `analysis["devices"]`. `op` is `read` or `write`.
    """
    return _drawn(data.addresses(data.analysis_of(source), device, op), backend)


def who_waited(source: Any, *, backend: str = "matplotlib") -> Any:
    """Draws the time for which each program's threads were blocked on storage, by operation.

    If the recording does not show blocked threads, as in most traces of other tools, draws the time during which
    requests that each process waits for were in flight.
    """
    return _drawn(data.waits(data.analysis_of(source)), backend)


def how_many_requests_were_in_flight(source: Any, *, device: int = 0, backend: str = "matplotlib") -> Any:
    """Draws the share of time with each number of requests in flight on one device: the queue depth."""
    return _drawn(data.depths(data.analysis_of(source), device), backend)
