"""Opening inputs: the same numbers as the program and as DuckDB."""

import json
import shutil
import subprocess
import sys

import duckdb
import polars
import pyarrow
import pytest
from inputs import BLKTRACE, FTRACE, INPUTS, RECORDING, STALL, TRACES

import fonio


def test_the_package_is_imported_without_the_native_module():
    code = (
        "import fonio, sys; assert 'fonio._fonio' not in sys.modules; "
        "fonio.profiles; assert 'fonio._fonio' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        fonio.opne  # noqa: B018


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_a_report_has_the_same_figures_as_the_program(path, program):
    printed = subprocess.run([program, "report", "--json", path], stdout=subprocess.PIPE, check=False).stdout
    ours = fonio.open(path).report()
    assert json.loads(ours.json()) == json.loads(printed)
    figures = json.loads(printed)["figures"]
    assert len(figures) > 50
    assert {name: figure.value for name, figure in ours.figures.items()} == {
        figure["name"]: figure["value"] for figure in figures
    }


def test_a_filter_is_that_of_the_program(program):
    words = [program, "report", "--json", "--op", "write", "--until", "4s", RECORDING]
    printed = subprocess.run(words, stdout=subprocess.PIPE, check=False).stdout
    ours = fonio.open(RECORDING).report(ops=["write"], until_s=4)
    assert json.loads(ours.json()) == json.loads(printed)
    with pytest.raises(fonio.FonioError, match="wirte.* is not an op"):
        fonio.open(RECORDING).report(ops=["wirte"])
    with pytest.raises(TypeError, match="lists of names"):
        fonio.open(RECORDING).report(ops="write")


def test_the_tables_of_a_recording_are_its_files():
    recording = fonio.open(RECORDING)
    compared = 0
    for name in recording.tables:
        table = recording.table(name)
        file = RECORDING / f"{name}.parquet"
        if not file.exists():
            assert table.rows == 0 and table.to_arrow().num_rows == 0
            continue
        ours, stored = table.to_duckdb(), duckdb.read_parquet(str(file))
        columns = ", ".join(column for column in table.columns if column in stored.columns)
        assert ours.project(columns).order("ALL").fetchall() == stored.project(columns).order("ALL").fetchall()
        assert table.rows == len(ours)
        compared += table.rows
    assert compared > 500


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_every_library_reads_the_same_table(path):
    recording = fonio.open(path)
    requests = recording.requests
    arrow, frame = requests.to_arrow(), requests.to_polars()
    ((rows, size),) = duckdb.sql("SELECT count(*), sum(bytes)::BIGINT FROM requests").fetchall()
    assert rows == arrow.num_rows == frame.height == len(requests.to_pandas())
    assert size == frame["bytes"].sum() == pyarrow.compute.sum(arrow["bytes"]).as_py()
    totals = recording.report().analysis["totals"]
    assert rows == totals["requests"] > 0
    assert dict(duckdb.sql("SELECT op, count(*) FROM requests GROUP BY op").fetchall()) == {
        row["op"]: row["requests"] for row in totals["by_op"]
    }


def test_integers_with_nulls_stay_integers_in_pandas():
    frame = fonio.open(BLKTRACE).requests.to_pandas()
    assert frame["file_id"].isna().all() and str(frame["file_id"].dtype).startswith("uint32")


def test_kinds_metadata_and_names():
    assert [fonio.open(path).kind for path in (RECORDING, STALL, BLKTRACE)] == ["recording", "stall", "trace"]
    assert fonio.open(RECORDING).meta["schema_version"] >= 1
    assert fonio.open(STALL).meta["source"] and fonio.open(FTRACE).meta["source"]
    assert fonio.open(STALL).waits.to_arrow().num_rows > 0
    assert fonio.open([FTRACE]).name == str(FTRACE)


def test_a_table_that_is_no_longer_read_ends_its_thread():
    reader = fonio.open(BLKTRACE).requests.batches()
    first = reader.read_next_batch()
    assert first.num_rows > 0
    del reader, first
    # A stream that is only opened for its columns reads nothing.
    assert pyarrow.RecordBatchReader.from_stream(fonio.open(BLKTRACE).bios).schema.names


def test_a_csv_trace_needs_its_columns(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("t,rw,off,len,lat\n1,R,0,4096,100\n2,W,8192,512,250\n")
    recording = fonio.open(path, format="csv", csv="time=t:ms,op=rw,offset=off:bytes,size=len:bytes,latency=lat:us")
    assert recording.requests.to_polars()["bytes"].to_list() == [4096, 512]


def test_findings_and_figures_are_objects():
    report = fonio.open(RECORDING).report()
    assert report.verdict.startswith("Storage is your problem") and report.is_valid
    finding = report.findings[0]
    assert finding.rank == 1 and finding.sentence == str(finding) and finding.evidence and finding.fixes
    figure = report.figures["outstanding.response.p99"]
    assert figure.unit and figure.better == "lower" and figure.value > 0
    with pytest.raises(KeyError, match=r"latency\.reads\.response\.p99"):
        report.figures["latency.read.response.p99x"]
    assert "Storage is your problem" in report.text() and "<html" in report.html()
    assert report.name in repr(report)


def test_a_page_is_written(tmp_path):
    fonio.open(RECORDING).report().save_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 100_000


def test_bad_inputs_get_one_sentence(tmp_path):
    with pytest.raises(fonio.FonioError, match="absent: no such file"):
        fonio.open(tmp_path / "absent")
    with pytest.raises(fonio.FonioError, match="is neither a recording"):
        fonio.open(tmp_path)
    with pytest.raises(fonio.FonioError, match="compare them"):
        fonio.open([RECORDING, BLKTRACE])
    with pytest.raises(ValueError, match="there is no table `request`; the nearest name is `requests`"):
        fonio.open(RECORDING).table("request")
    with pytest.raises(AttributeError, match="its tables are requests, bios"):
        fonio.open(RECORDING).request  # noqa: B018
    with pytest.raises(fonio.FonioError, match="blktraze"):
        fonio.open(BLKTRACE, format="blktraze")
    text = tmp_path / "text"
    text.write_text("no trace\n" * 10)
    with pytest.raises(fonio.FonioError):
        fonio.open(text).report()
    with pytest.raises(Exception, match="text"):
        fonio.open(text).requests.to_arrow()


def test_a_damaged_recording_names_its_file(tmp_path):
    copy = shutil.copytree(RECORDING, tmp_path / "copy")
    (copy / "requests.parquet").write_bytes((copy / "requests.parquet").read_bytes()[:-20])
    with pytest.raises(fonio.FonioError, match=r"requests\.parquet cannot be read as Parquet"):
        fonio.open(copy)


def test_a_comparison_is_that_of_the_program(program):
    pair = [RECORDING, TRACES / "ftrace-3.4-tgid.txt"]
    printed = subprocess.run([program, "compare", "--json", *pair], stdout=subprocess.PIPE, check=False).stdout
    ours = fonio.compare(*pair)
    assert json.loads(ours.json()) == json.loads(printed)
    assert len(ours.changes) == len(json.loads(printed)["comparison"]["rows"])
    assert all(change.answer in ("lower", "higher") for change in ours.differences)
    with pytest.raises(ValueError, match="at least 3"):
        fonio.compare([RECORDING, RECORDING], RECORDING)
    several = fonio.compare([RECORDING] * 3, [fonio.open(RECORDING).report()] * 3)
    assert several.sides == ["before", "after"] and not several.differences


def test_requests_of_another_tool_are_analysed():
    frame = polars.DataFrame(
        {"op": ["read", "write"], "bytes": [4096, 8192], "issued_ns": [0, 1000], "completed_ns": [500, 3000]}
    )
    totals = fonio.analyse(frame).analysis["totals"]
    assert (totals["read_bytes"], totals["write_bytes"]) == (4096, 8192)
    again = fonio.analyse(fonio.open(RECORDING).requests).analysis["latency"]
    assert again["groups"][0] == fonio.open(RECORDING).report().analysis["latency"]["groups"][0]


def test_a_command_is_recorded(program, tmp_path):
    with pytest.raises(fonio.FonioError, match="no-such-fonio is not a program"):
        fonio.record("true", out=tmp_path / "x", program="no-such-fonio")
    with pytest.raises(fonio.FonioError, match="--no-such-option"):
        fonio.record("true", out=tmp_path / "x", options=["--no-such-option"], program=program)
    command = f"dd if=/dev/zero of={tmp_path}/data bs=64k count=16 conv=fsync"
    try:
        recording = fonio.record(command, out=tmp_path / "recording", program=program)
    except fonio.FonioError as error:
        pytest.skip(f"this machine cannot record: {error}")
    assert recording.kind == "recording" and recording.meta["command"]
