"""The report as JSON."""

from __future__ import annotations

import dataclasses
import datetime
import json
from typing import Any

from .answers import SCHEMA, Report
from .text import sentence, unknown_sentence, verdict, wear_sentence


def document(report: Report) -> dict:
    """Returns the report as a JSON document, with its sentences."""
    plain = _plain(report)
    for row, culprit in zip(plain["culprits"], report.culprits, strict=True):
        row["sentence"] = sentence(culprit)
    for row, culprit in zip(plain["better"], report.better, strict=True):
        row["sentence"] = sentence(culprit)
    for row, unknown in zip(plain["unknown"], report.unknown, strict=True):
        row["sentence"] = unknown_sentence(unknown)
    return {"schema": SCHEMA, "verdict": verdict(report), "wear_sentence": wear_sentence(report.wear), **plain}


def to_json(report: Report) -> str:
    """Returns the document as text; equal reports give equal texts."""
    return json.dumps(document(report), indent=2, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
