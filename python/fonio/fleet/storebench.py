"""Results of StoreBench in a fleet: `storebench/DEVICE/NAME.json` becomes rows of the table `results`, one for each
figure.

The documents name no device (docs/storebench.schema.json), so the name of the folder is the name of the device.
"""

from __future__ import annotations

import datetime
import json
import math
import re

from .intake import Refused

#: The name of the schema, and the version of it that this package reads.
SCHEMA = "fonio.storebench"
VERSION = 1
#: The largest document: the results service accepts up to 64 KiB.
BYTES_MAX = 1 << 20

_SCHEMA = re.compile(r"^fonio\.storebench/(\d+)$")
_HALF_WRITTEN = "the result is not a complete JSON document"
_NOT_OURS = "it is not a result of `fonio storebench`"


def rows(data: bytes, device: str) -> list[dict]:
    """Returns a row for each measured figure of a document. Raises `Refused` if the document cannot be used."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refused("half-written-result", _HALF_WRITTEN) from error
    version = _SCHEMA.match(str(document.get("schema"))) if isinstance(document, dict) else None
    if version is None:
        raise Refused("not-a-result", _NOT_OURS)
    if int(version[1]) > VERSION:
        raise Refused(
            "newer-result",
            f"the result's schema is newer than {SCHEMA}/{VERSION}; update the package fonio on this machine",
        )
    if document.get("origin") != "measured":
        raise Refused("not-measured", "it is a result of a model or of an emulated device")
    key, disk, machine, figures = (_object(document, name) for name in ("key", "device", "machine", "figures"))
    began = document.get("began_unix_s")
    # A date has four digits, so a later time is not one.
    if not isinstance(began, int) or not 0 <= began < 253_402_300_800:
        raise Refused("not-a-result", _NOT_OURS)
    shared = {
        "device": device,
        "day": datetime.date(1970, 1, 1) + datetime.timedelta(days=began // 86_400),
        "began_s": began,
        "writer": document.get("tool"),
        "engine": document.get("engine"),
        "comparison": "v{}.{}.{}.{}.{}gb".format(
            *(key.get(name) for name in ("test_version", "effort", "mode", "file_system", "size_class_gb"))
        ),
        "model": machine.get("board"),
        "kernel": machine.get("kernel"),
        "os": machine.get("distribution"),
        "disk_kind": disk.get("kind"),
        "disk_model": disk.get("model"),
        "disk_firmware": disk.get("firmware"),
        "disk_made": disk.get("made"),
        "disk_bytes": disk.get("capacity_bytes"),
    }
    found = []
    for name, figure in sorted(figures.items()):
        measured = figure.get("measured") if isinstance(figure, dict) else None
        if not isinstance(measured, dict):
            continue
        found.append(
            {
                **shared,
                "figure": name,
                "unit": measured.get("unit"),
                "value": _number(measured, "value"),
                "least": _number(measured, "low"),
                "most": _number(measured, "high"),
                "runs": measured.get("runs"),
            }
        )
    return found


def _number(measured: dict, name: str) -> float:
    value = measured.get(name)
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Refused("not-a-result", _NOT_OURS)
    return float(value)


def _object(document: dict, name: str) -> dict:
    found = document.get(name)
    if not isinstance(found, dict):
        raise Refused("not-a-result", _NOT_OURS)
    return found
