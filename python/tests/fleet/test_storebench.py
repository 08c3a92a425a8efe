"""Results of StoreBench: documents become rows, bad ones are named, and the report compares the good ones."""

from __future__ import annotations

import datetime
import json

import pyarrow.parquet as pq
import pytest
from conftest import REPOSITORY, made, report

from fonio.fleet import cli, migrate, pack, questions, storebench, text
from fonio.fleet.schema import RESULTS, VERSION_KEY

#: 2025-01-05, an hour after midnight.
BEGAN = 1_736_038_800


def document(milliseconds: float = 2.0, began: int = BEGAN, **changes) -> dict:
    """Returns a result with the fields that a fleet reads."""
    value = {"unit": "ms", "runs": 3, "low": milliseconds * 0.9, "high": milliseconds * 1.1, "stable": True}
    rate = {"unit": "MB/s", "runs": 1, "low": 20.0, "high": 20.0, "stable": True, "value": 20.0}
    return {
        "schema": "fonio.storebench/1",
        "tool": "fonio 0.1.0",
        "engine": "fio-3.33",
        "began_unix_s": began,
        "took_s": 400.0,
        "origin": "measured",
        "key": {"test_version": 1, "effort": "full", "mode": "directory", "file_system": "ext4", "size_class_gb": 32},
        "device": {
            "kind": "sd",
            "model": "SC32G",
            "firmware": "0x0",
            "made": "05/2023",
            "capacity_bytes": 31_914_983_424,
        },
        "machine": {
            "board": "Pi 4",
            "kernel": "6.12.8",
            "distribution": "Debian 12",
            "mount_options": [],
            "caches_dropped": True,
        },
        "figures": {
            "sync.write.4k.p50": {"measured": {**value, "value": milliseconds}},
            "sustained.last": {"measured": rate},
            "launch.cold.total": {"not_measured": "no time left"},
        },
        **changes,
    }


def put(place, device: str, content: object, name: str = "storebench.json") -> None:
    path = place / "storebench" / device / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_a_document_becomes_a_row_for_each_measured_figure():
    rows = storebench.rows(json.dumps(document()).encode(), "d1")
    assert [(row["figure"], row["unit"], row["value"]) for row in rows] == [
        ("sustained.last", "MB/s", 20.0),
        ("sync.write.4k.p50", "ms", 2.0),
    ]
    assert rows[1] | {"figure": None} == {
        "device": "d1",
        "day": datetime.date(2025, 1, 5),
        "began_s": BEGAN,
        "writer": "fonio 0.1.0",
        "engine": "fio-3.33",
        "comparison": "v1.full.directory.ext4.32gb",
        "model": "Pi 4",
        "kernel": "6.12.8",
        "os": "Debian 12",
        "disk_kind": "sd",
        "disk_model": "SC32G",
        "disk_firmware": "0x0",
        "disk_made": "05/2023",
        "disk_bytes": 31_914_983_424,
        "figure": None,
        "unit": "ms",
        "value": 2.0,
        "least": 1.8,
        "most": 2.2,
        "runs": 3,
    }
    assert set(rows[0]) == set(RESULTS.names)


def test_the_fields_are_those_of_the_published_schema():
    schema = json.loads((REPOSITORY / "docs" / "storebench.schema.json").read_text())
    example = document()
    parts = {"device": "Device", "machine": "Machine", "key": "Key"}
    assert set(example) <= set(schema["properties"])
    for name, part in parts.items():
        assert set(example[name]) <= set(schema["$defs"][part]["properties"]), name
    assert set(example["figures"]["sustained.last"]["measured"]) == set(schema["$defs"]["Value"]["required"])
    assert schema["properties"]["schema"]["description"] == f"`{storebench.SCHEMA}/{storebench.VERSION}`."


def test_documents_and_parquet_files_are_one_table_and_bad_documents_are_named(small):
    before = report(small)
    for number in range(3):
        put(small, f"good{number}", document(1.0 + number))
    put(small, "good0", document(1.0), "again.json")
    put(small, "newer", document(schema="fonio.storebench/2"))
    put(small, "cut", json.dumps(document())[:300])
    put(small, "model", document(origin="model"))
    put(small, "foreign", {"schema": "other"})
    put(small, "list", [1])
    put(small, "typed", document(key=None))
    put(small, "clock", document(began=10))
    put(small, "zero", document(0.0))
    put(small, "text", document(tool=7))
    found = report(small)
    for words in (
        "1 result left out: the result's schema is newer than fonio.storebench/1; update the package fonio on this "
        "machine, such as "
        "storebench/newer/storebench.json",
        "1 result left out: the result is not a complete JSON document, such as storebench/cut/storebench.json",
        "1 result left out: it is a result of a model or of an emulated device, such as "
        "storebench/model/storebench.json",
        "3 results left out: it is not a result of `fonio storebench`, such as storebench/foreign/storebench.json",
        "1 result left out: a value has the wrong type, such as storebench/text/storebench.json",
        "2 result figures left out: the day is in the future or before 2020, so the clock was wrong, such as device "
        "clock",
        "1 result figure left out: the value of a figure does not exist, such as device zero",
        "2 result figures left out: the same result and figure was sent before, such as device good0",
    ):
        assert words in found.problems, found.problems
    assert len(found.problems) == 8
    (median,) = [
        row for row in found.benchmarked if (row.disk_model, row.quantity) == ("SC32G", "synchronous write time")
    ]
    assert (median.devices, median.median, median.comparison) == (3, 2.0, "v1.full.directory.ext4.32gb")
    medians = "long write 20 MB/s at its end, write of 4 KiB and fdatasync 2 ms"
    told = f"SC32G (v1.full.directory.ext4.32gb), 4 devices: {medians}"
    assert told in "\n".join(text.lines(found))
    # Results of devices do not change the rest of the report.
    assert (found.devices, found.device_days, found.written_bytes) == (
        before.devices,
        before.device_days,
        before.written_bytes,
    )


def test_results_are_packed_and_migrated_and_sent(small, tmp_path, capsys):
    put(small, "good", document())
    put(small, "cut", "{")
    before = report(small)
    told = pack(str(small))
    assert told.startswith("Packed 1 files") and "storebench/cut" in told
    assert pack(str(small)).startswith("Packed 0 files")
    assert report(small).benchmarked == before.benchmarked
    put(small, "good", document(3.0, began=BEGAN + 86_400), "second.json")
    migrate(str(small), str(tmp_path / "new"))
    rows = [
        row for path in (tmp_path / "new" / "results").rglob("*.parquet") for row in pq.read_table(path).to_pylist()
    ]
    assert sorted(row["value"] for row in rows if row["device"] == "good" and row["unit"] == "ms") == [2.0, 3.0]
    first = next((tmp_path / "new" / "results").rglob("*.parquet"))
    assert pq.read_schema(first).metadata[VERSION_KEY] == b"1"
    (tmp_path / "gate" / "storebench").mkdir(parents=True)
    put(tmp_path / "gate", "d", document())
    (tmp_path / "fleet").mkdir()
    assert cli.main(["send", str(tmp_path / "gate"), str(tmp_path / "fleet")]) == 0
    assert (
        tmp_path / "fleet" / "storebench" / "d" / "storebench.json"
    ).is_file() and "Sent 1 files" in capsys.readouterr().out


def test_a_slow_disk_and_a_disk_that_became_slower_are_behind(small):
    for number in range(40):
        put(small, f"d{number:02}", document(2.0 + number / 40))
        put(small, f"d{number:02}", document(2.0 + number / 40, began=BEGAN + 3 * 86_400), "second.json")
    put(small, "slow", document(20.0))
    # Its last value is not unusual, but it was three times as fast before.
    put(small, "worn", document(0.5))
    put(small, "worn", document(2.5, began=BEGAN + 3 * 86_400), "second.json")
    # Another key: not compared with the others, and not with its own first result.
    put(small, "other", document(2.0))
    key = {**document()["key"], "file_system": "f2fs"}
    put(small, "other", document(20.0, began=BEGAN + 86_400, key=key), "second.json")
    found = report(small)
    shown = {row.device: (row.measure, round(row.times_median, 1)) for row in found.behind}
    assert shown == {
        "slow": ("StoreBench synchronous write time (v1.full.directory.ext4.32gb)", pytest.approx(8.1, abs=0.3)),
        "worn": (
            "change of the StoreBench synchronous write time (v1.full.directory.ext4.32gb)",
            pytest.approx(5.0, abs=0.1),
        ),
    }
    assert found.behind_in_all == 2


def test_a_firmware_is_blamed_for_its_results(tmp_path):
    fleet = made(tmp_path, devices=1500, days=126, seed=11, faults=("firmware",))
    found = report(fleet)
    named = [culprit for culprit in found.culprits if culprit.measure.startswith("StoreBench synchronous write time")]
    assert [questions.describe(culprit) for culprit in named] == ["disk firmware EM32 2.1"]
    assert named[0].comparison.least < 1.6 * 1.02 and named[0].comparison.most > 1.6 * 0.98 and named[0].since is None
    assert not any(culprit.measure.startswith("StoreBench random read time") for culprit in found.culprits)
    assert found.problems == []
