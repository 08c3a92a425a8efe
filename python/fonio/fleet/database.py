"""A DuckDB database with the tables behind a report, for dashboards such as packages/grafana/fonio-fleet.json.

The database is written next to its final name, and gets this name when it is complete, so that a dashboard that is open
sees either the old database or the new one.
"""

from __future__ import annotations

import datetime
import os

import pyarrow as pa

from .answers import Report
from .document import document
from .engines.duckdb import DuckDb
from .problems import FleetError

#: Tables that the queries of a report leave in the engine. A week begins with its first day.
_QUERIES = {
    "weeks": """
        SELECT CAST(DATE '1970-01-01' + ($last_day + 1 + 7 * week) AS TIMESTAMP) AS week_begins, device, disk, model,
            kernel, os, disk_model, disk_firmware, disk_made, days, watched_s, reads, read_us, writes, write_us,
            flushes, flush_us, read_bytes, written_bytes, stalls, stalled_ms, life_used_percent, is_main
        FROM weeks
        ORDER BY week_begins, device, disk""",
    "units": """
        SELECT CAST(DATE '1970-01-01' + ($last_day + 1 + 7 * week) AS TIMESTAMP) AS week_begins, device, model, os,
            disk_model, unit, written_bytes
        FROM unit_weeks
        ORDER BY week_begins, device, unit""",
    "results": """
        SELECT CAST(to_timestamp(began_s) AT TIME ZONE 'UTC' AS TIMESTAMP) AS began, device, model, kernel, os,
            disk_model, disk_firmware, disk_made, comparison, quantity, value
        FROM checked_results
        WHERE refused IS NULL
        ORDER BY began, device, quantity""",
}
_TEXT, _NUMBER, _COUNT, _DAY = pa.string(), pa.float64(), pa.int64(), pa.date32()
#: Tables of the report's answers.
_ANSWERS: dict[str, dict[str, pa.DataType]] = {
    "causes": {
        "sentence": _TEXT,
        "attribute": _TEXT,
        "measure": _TEXT,
        "is_worse": pa.bool_(),
        "ratio": _NUMBER,
        "least": _NUMBER,
        "most": _NUMBER,
        "devices": _COUNT,
        "devices_now": _COUNT,
        "since": _DAY,
    },
    "outliers": {
        "device": _TEXT,
        "model": _TEXT,
        "disk_model": _TEXT,
        "measure": _TEXT,
        "times_median": _NUMBER,
        "why": _TEXT,
    },
    "sufferers": {
        "factor": _TEXT,
        "level": _TEXT,
        "devices": _COUNT,
        "suffering": _COUNT,
        "share": _NUMBER,
        "stalled_s_a_day": _NUMBER,
    },
    "stall_causes": {
        "unit": _TEXT,
        "cause": _TEXT,
        "culprit": _TEXT,
        "devices": _COUNT,
        "stalls": _COUNT,
        "stalled_ms": _COUNT,
    },
    "writers": {"unit": _TEXT, "devices": _COUNT, "device_days": _COUNT, "written_bytes": _COUNT},
    "unknown": {"sentence": _TEXT},
    "left_out": {"sentence": _TEXT},
    "report": {
        "verdict": _TEXT,
        "wear": _TEXT,
        "first_day": _DAY,
        "last_day": _DAY,
        "devices": _COUNT,
        "devices_now": _COUNT,
        "device_days": _COUNT,
        "written_bytes": _COUNT,
        "comparisons": _COUNT,
        "wear_earliest": _DAY,
        "wear_latest": _DAY,
    },
}


def check(path: str) -> None:
    """Raises an error if a database cannot be written to this path, before a report begins."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise FleetError(f"{path} is a folder; name a file for the database")
    if not os.access(folder, os.W_OK):
        raise FleetError(
            f"{path} cannot be written: {'no permission' if os.path.isdir(folder) else 'its folder does not exist'}"
        )


def write(path: str, report: Report, engine: DuckDb) -> None:
    """Writes the tables of a report, over an older database."""
    last_day = (report.last_day - datetime.date(1970, 1, 1)).days
    tables = {name: sql.replace("$last_day", str(last_day)) for name, sql in _QUERIES.items()}
    answers = {
        name: pa.Table.from_pylist(
            [{column: row.get(column) for column in types} for row in rows], schema=pa.schema(list(types.items()))
        )
        for (name, types), rows in zip(_ANSWERS.items(), _rows(report), strict=True)
    }
    part = f"{path}.part"
    try:
        _remove(part)
        engine.export(part, tables, answers)
        os.replace(part, path)
    except OSError as error:
        raise FleetError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        _remove(part)
        _remove(f"{part}.wal")


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.remove(path)


def _rows(report: Report) -> list[list[dict]]:
    """Returns the rows of each table of answers, in their order."""
    from .questions import describe

    told = document(report)
    causes = [
        {
            "sentence": row["sentence"],
            "attribute": describe(culprit),
            "measure": culprit.measure,
            "is_worse": is_worse,
            "ratio": culprit.comparison.ratio,
            "least": culprit.comparison.least,
            "most": culprit.comparison.most,
            "devices": culprit.comparison.devices,
            "devices_now": culprit.devices_now,
            "since": culprit.since,
        }
        for is_worse, name, culprits in ((True, "culprits", report.culprits), (False, "better", report.better))
        for row, culprit in zip(told[name], culprits, strict=True)
    ]
    wear = report.wear
    summary = {name: getattr(report, name, None) for name in _ANSWERS["report"]} | {
        "verdict": told["verdict"],
        "wear": told["wear_sentence"],
        "wear_earliest": wear and wear.earliest,
        "wear_latest": wear and wear.latest,
    }
    return [
        causes,
        told["outliers"] + told["behind"],
        told["sufferers"],
        report.stall_causes,
        report.writers,
        told["unknown"],
        [{"sentence": sentence} for sentence in report.problems],
        [summary],
    ]
