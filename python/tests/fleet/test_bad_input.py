"""Bad input is named, counted and left out, and costs nothing else."""

from __future__ import annotations

import datetime
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import REPOSITORY, device_file, report, rows, write_rows

from fonio.fleet import FleetError, migrate, pack
from fonio.fleet.schema import DAYS, VERSION_KEY

DAY = "2025-01-05"


def problem(found, *words: str) -> str:
    """Returns the one problem that has all words."""
    texts = [told for told in found.problems if all(word in told for word in words)]
    assert len(texts) == 1, found.problems
    return texts[0]


def test_half_written_parquet_files_are_left_out(small):
    before = report(small)
    whole = (small / "days" / DAY / "part-000.parquet").read_bytes()
    (small / "days" / DAY / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (small / "days" / DAY / "empty.parquet").write_bytes(b"")
    found = report(small)
    assert problem(found, "2 files", "not complete", "cut.parquet")
    assert found.device_days == before.device_days


def test_newer_and_foreign_files_are_left_out_and_older_columns_are_unknown(small):
    before = report(small)
    table = pq.read_table(small / "days" / DAY / "part-000.parquet")
    newer = table.replace_schema_metadata({VERSION_KEY: b"2"})
    pq.write_table(newer, small / "days" / DAY / "newer.parquet")
    pq.write_table(table.replace_schema_metadata({}), small / "days" / DAY / "foreign.parquet")
    wrong = table.set_column(table.schema.get_field_index("writes"), "writes", pa.array(["many"] * table.num_rows))
    pq.write_table(wrong.replace_schema_metadata(DAYS.metadata), small / "days" / DAY / "wrong.parquet")
    older = table.drop_columns(["disk_made", "flush_us", "unobserved"])
    pq.write_table(older.replace_schema_metadata(DAYS.metadata), small / "days" / DAY / "part-000.parquet")
    found = report(small)
    assert problem(found, "newer than 1", "newer.parquet", "update the package")
    assert problem(found, "does not name a version", "foreign.parquet")
    assert problem(found, "column writes has the type string", "wrong.parquet")
    assert found.device_days == before.device_days


def test_a_column_that_no_file_has_is_unknown(small):
    for path in (small / "days").rglob("*.parquet"):
        table = pq.read_table(path).drop_columns(["reserved_blocks", "disk_kind"])
        pq.write_table(table, path)
    assert report(small).problems == []


def test_wrong_clocks_lies_and_duplicates_are_counted(small):
    before = report(small)
    first, second, *others = rows(small, "days", DAY)
    lies = [
        {**first, "device": "future", "day": datetime.date(2031, 1, 1)},
        {**first, "device": "past", "day": datetime.date(1970, 1, 1)},
        {**first, "device": "negative", "writes": -1},
        {**first, "device": "long", "watched_s": 200_000},
        {**first, "device": "fast", "written_bytes": 2**62},
        {**first, "device": "busy", "busy_ms": 10**12},
        {**first, "device": "slow", "slow_reads": first["reads"] + 1},
        {**first, "device": "hours", "write_us": first["writes"] * 4_000_000_000},
        {**first, "device": "wear", "life_used_percent": 900},
        {**first, "device": None},
    ]
    # The same rows again, and a shorter copy of a day, which the longer one replaces.
    copies = [second, {**others[0], "watched_s": max(others[0]["watched_s"] - 100, 0), "written_bytes": 0}]
    write_rows(small, "days", DAY, "lies.parquet", lies + copies)
    found = report(small)
    assert found.device_days == before.device_days and found.devices == before.devices
    assert found.written_bytes == before.written_bytes
    for words in (
        ("2 rows", "clock was wrong", "device future"),
        ("negative", "device negative"),
        ("longer than a day", "device long"),
        ("bus", "device fast"),
        ("busy", "device busy"),
        ("more slow requests", "device slow"),
        ("above an hour", "device hours"),
        ("register", "device wear"),
        ("names no device",),
        ("2 rows", "sent before"),
    ):
        problem(found, *words)


def test_files_of_devices_are_read_and_the_bad_ones_named(small):
    before = report(small)
    for number in range(3):
        device_file(small, f"good{number}", DAY)
    device_file(small, "cut", DAY, cut=150)
    device_file(small, "newer", DAY, schema=2)
    device_file(small, "noday", "2025-01-06", schema="one")
    device_file(small, "typed", DAY, lines=[{"kind": "disk", "disk": "sda", "watched_s": "all day"}])
    torn = device_file(small, "torn", DAY)
    torn.write_bytes(torn.read_bytes()[:-9])
    part = small / "arrived" / DAY / ".late.jsonl.gz.part"
    part.write_bytes(b"not finished")
    found = report(small)
    assert found.devices == before.devices + 3 and found.device_days == before.device_days + 3
    assert problem(found, "1 file", "no last line", "cut.jsonl.gz")
    assert problem(found, "newer than 1", "newer.jsonl.gz")
    assert problem(found, "not a file of `fonio watch send`", "noday.jsonl.gz")
    assert problem(found, "wrong type", "typed.jsonl.gz")
    assert problem(found, "compressed data are damaged", "torn.jsonl.gz")
    assert len(found.problems) == 5, found.problems


def test_packing_loses_nothing_and_counts_nothing_twice(small):
    for number in range(5):
        device_file(small, f"good{number}", DAY)
    late = device_file(small, "late", DAY, cut=150)
    before = report(small)
    assert pack(str(small)).startswith("Packed 5 files")
    assert pack(str(small)).startswith("Packed 0 files"), "only the half-written file is left"
    found = report(small)
    assert (found.devices, found.device_days, found.written_bytes) == (
        before.devices,
        before.device_days,
        before.written_bytes,
    )
    late.unlink()
    device_file(small, "late", DAY)
    assert pack(str(small)).startswith("Packed 1 files")
    assert report(small).device_days == before.device_days + 1


def test_a_migrated_fleet_has_the_present_columns_and_the_same_answers(small, tmp_path):
    table = pq.read_table(small / "days" / DAY / "part-000.parquet").drop_columns(["disk_made", "unobserved"])
    pq.write_table(table, small / "days" / DAY / "part-000.parquet")
    (small / "days" / DAY / "cut.parquet").write_bytes(b"PAR1")
    device_file(small, "sent", "2025-01-20")
    told = migrate(str(small), str(tmp_path / "new"))
    assert told.startswith("Wrote ") and "cut.parquet" in told
    old, new = report(small), report(tmp_path / "new")
    assert (new.devices, new.device_days, new.written_bytes, new.sufferers) == (
        old.devices,
        old.device_days,
        old.written_bytes,
        old.sufferers,
    )
    for path in (tmp_path / "new" / "days").rglob("*.parquet"):
        assert (
            pq.read_schema(path).equals(DAYS, check_metadata=False)
            and pq.read_schema(path).metadata[VERSION_KEY] == b"1"
        )
    with pytest.raises(FleetError, match="is not empty"):
        migrate(str(small), str(tmp_path / "new"))


def test_recordings_of_all_ages(small):
    before = report(small)
    sample = REPOSITORY / "docs" / "sample" / "webbench-on-ridata"
    folder = small / "recordings"
    for name in ("good", "newer", "cut", "older", "lost"):
        shutil.copytree(sample, folder / name)
        # A recording of a day on which the fleet has other devices.
        meta = json.loads((folder / name / "meta.json").read_text())
        meta["clock"]["unix_ns_at_zero"] = int(
            datetime.datetime(2025, 1, 4, tzinfo=datetime.timezone.utc).timestamp() * 1e9
        )
        meta |= {"schema_version": 99} if name == "newer" else {}
        (folder / name / "meta.json").write_text(json.dumps(meta)[: 300 if name == "cut" else None])
    requests = pq.read_table(folder / "older" / "requests.parquet")
    pq.write_table(requests.drop_columns(["inserted_ns", "queued_ns", "ioprio"]), folder / "older" / "requests.parquet")
    (folder / "lost" / "requests.parquet").unlink()
    found = report(small)
    # The good and the older recording are of one machine and day.
    assert (found.devices, found.device_days) == (before.devices + 1, before.device_days + 1)
    assert problem(found, "1 recording", "newer than 1", "recordings/newer")
    assert problem(found, "2 recordings", "missing or not complete")
    assert problem(found, "1 row", "sent before")


def test_a_recording_becomes_a_row_with_its_requests():
    from fonio.fleet import recordings
    from fonio.fleet.store import Location

    folder = REPOSITORY / "docs" / "sample"
    (row,) = recordings.rows(Location(str(folder)), "webbench-on-ridata")
    requests = pq.read_table(folder / "webbench-on-ridata" / "requests.parquet").to_pylist()
    for op, plural in (("read", "reads"), ("write", "writes"), ("flush", "flushes")):
        times = [
            (r["completed_ns"] - r["queued_ns"]) // 1000
            for r in requests
            if r["op"] == op and r["completed_ns"] is not None
        ]
        assert (row[plural], row[f"{op}_us"], sum(row[f"{op}_classes"])) == (len(times), sum(times), len(times)), op
    assert row["writes"] > 50 and row["written_bytes"] == sum(r["bytes"] for r in requests if r["op"] == "write")
    assert row["device"].startswith("host-") and "vm" not in row["device"]


def test_clocks_that_are_ahead_do_not_move_the_window(small):
    before = report(small)
    first = rows(small, "days", DAY)[0]
    write_rows(small, "days", DAY, "ahead.parquet", [{**first, "device": "ahead", "day": datetime.date(2025, 12, 24)}])
    found = report(small)
    assert problem(found, "1 row", "later than 2025-01-10", "device ahead")
    assert (found.last_day, found.devices) == (before.last_day, before.devices)


def test_nothing_to_read_is_one_sentence(tmp_path):
    with pytest.raises(FleetError, match="there is no folder"):
        report(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(FleetError, match="is a file; give the folder of a fleet"):
        report(tmp_path / "file")
    with pytest.raises(FleetError, match="no usable rows.*fonio watch send"):
        report(tmp_path)


def test_texts_of_devices_are_data(small):
    first = rows(small, "days", DAY)[0]
    name = "x'); DROP TABLE weeks; --\\"
    write_rows(small, "days", DAY, "hostile.parquet", [{**first, "device": name, "os": "a|b'c\\d", "disk_made": "','"}])
    before = len(rows(small, "days", DAY))
    assert before and report(small).devices == 31
