"""Simulations: the same numbers as the engine, and Python models that decide like the shipped ones."""

import json
import os
import signal
import subprocess

import duckdb
import polars
import pytest
from inputs import BLKTRACE, RECORDING, STALL

import fonio
from fonio.models import Bast, Deadline, Fifo

MIXED = [
    fonio.ClosedLoop(1500, reads=0.5, depth=4, process=1),
    fonio.ClosedLoop(1500, reads=0.2, size=16384, depth=8, process=2, sync=False),
    fonio.ClosedLoop(500, reads=0.0, order="sequential", size=65536, process=3),
]


def times(simulation):
    columns = ("op", "sector", "bytes", "queued_ns", "issued_ns", "completed_ns", "tid")
    return simulation.requests.to_polars().select(columns)


def test_the_same_arguments_give_the_same_result():
    first, second = (fonio.simulate("sd_a1", MIXED, "bfq", capacity="256 MiB", seed=7) for _ in range(2))
    assert times(first).equals(times(second)) and first.summary == second.summary
    other = fonio.simulate("sd_a1", MIXED, "bfq", capacity="256 MiB", seed=8)
    assert not times(first).equals(times(other))
    assert first.settings["seed"] == 7 and first.settings["version"] == fonio.__version__
    assert first.settings["values"]["flash.pages_per_block"] == "256"


def test_the_numbers_of_a_result_agree_with_its_requests():
    result = fonio.simulate("sd_a1", MIXED, "mq-deadline", capacity="32 MiB", samples=50)
    requests, summary = result.requests, result.summary  # noqa: F841
    query = """
        SELECT op, count(*), sum(bytes)::BIGINT,
               quantile_disc(completed_ns - queued_ns, 0.99), max(issued_ns - queued_ns)
        FROM requests GROUP BY op ORDER BY op
    """
    assert duckdb.sql(query).fetchall() == [
        (op, row["count"], row["bytes"], row["response"]["p99_ns"], row["queue"]["max_ns"])
        for op, row in sorted(summary["ops"].items())
    ]
    written = summary["counters"]["host_written_bytes"]
    assert written == summary["ops"]["write"]["bytes"]
    assert result.write_amplification == summary["counters"]["programmed_bytes"] / written > 1
    states = result.states.to_polars()
    assert 50 <= states.height <= 51 and states["erases"].is_sorted()
    last = states.row(-1, named=True)
    assert last["completed"] == 3500 and last["erases"] == summary["counters"]["erases"] > 0
    wear = result.wear.to_polars()
    assert wear["erases"].sum() == summary["counters"]["erases"]
    assert wear.height == summary["blocks"]["total"]
    assert result.percentiles("read")["p50_ns"] <= result.percentiles("read", "response")["p99_ns"]
    assert result.report().figures["totals.requests"].value == 3500


def test_a_scheduler_in_python_decides_like_the_model():
    for ours, name in ((Fifo, "noop"), (Deadline, "deadline")):
        for depth in (1, 4):
            shipped = fonio.simulate("sd_a1", MIXED, name, capacity="256 MiB", depth=depth)
            python = fonio.simulate("sd_a1", MIXED, ours(), capacity="256 MiB", depth=depth)
            assert times(python).equals(times(shipped)), (name, depth)
            assert python.settings["scheduler"] == ours.__name__
    # The comparison means something only if the schedulers differ.
    assert not times(fonio.simulate("sd_a1", MIXED, "deadline", capacity="256 MiB")).equals(
        times(fonio.simulate("sd_a1", MIXED, "noop", capacity="256 MiB"))
    )


def test_a_translation_layer_in_python_does_the_same_as_the_model():
    profile = fonio.profile("ridata", {"ftl.kind": "bast", "ftl.victim": "lru", "ftl.log_blocks": 3})
    load = [fonio.ClosedLoop(600, reads=0.3, size=4096), fonio.ClosedLoop(60, size=1 << 20, order="sequential")]
    shipped = fonio.simulate(profile, load, capacity="64 MiB", seed=5)
    layer = lambda geometry: Bast(geometry, log_blocks=3, seed=5)  # noqa: E731
    python = fonio.simulate(profile, load, capacity="64 MiB", seed=5, ftl=layer)
    assert times(python).equals(times(shipped))
    assert python.counters == shipped.counters and python.summary["blocks"] == shipped.summary["blocks"]
    assert (
        shipped.counters["full_merges"] > 0
        and shipped.counters["switch_merges"] + shipped.counters["partial_merges"] > 0
    )


def test_a_recording_is_replayed_and_rows_keep_their_order():
    requests = fonio.open(BLKTRACE).requests
    result = fonio.simulate("emmc51", requests, capacity="2 TiB")
    frame = requests.to_polars()
    assert result.requests.to_polars()["sector"].to_list() == frame["sector"].to_list()
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
    again = times(fonio.simulate("emmc51", shuffled, capacity="2 TiB"))
    assert again["sector"].to_list() == shuffled["sector"].to_list()
    assert again.sort("queued_ns")["completed_ns"].equals(times(result).sort("queued_ns")["completed_ns"])


def test_tables_of_other_libraries_and_types():
    columns = {
        "op": ["read", "write", "flush"],
        "sector": [0, 8, 0],
        "bytes": [4096, 4096, 0],
        "queued_ns": [0, 10, 20],
    }
    polars_table = polars.DataFrame(columns)
    expected = times(fonio.simulate("sd_a1", polars_table))
    op, size = polars.col("op").cast(polars.Categorical), polars.col("bytes").cast(polars.UInt16)
    narrow = polars_table.with_columns(op, size)
    for table in (narrow, polars_table.to_arrow(), polars_table.to_pandas(), duckdb.sql("FROM polars_table")):
        assert times(fonio.simulate("sd_a1", table)).equals(expected), type(table)
    for changes, message in (
        ({"sector": polars.Series([None] * 3, dtype=polars.Int64)}, "request 0 of the recording has no sector"),
        ({"op": "raed"}, "column op, row 0: `raed` is not an op; the nearest name is `read`"),
        ({"sector": -1}, "column sector, row 0"),
        ({"bytes": 0.5}, "column bytes, row 0"),
    ):
        lit = lambda value: value if isinstance(value, polars.Series) else polars.lit(value)  # noqa: E731
        wrong = polars_table.with_columns(**{name: lit(value) for name, value in changes.items()})
        with pytest.raises((ValueError, fonio.FonioError), match=message):
            fonio.simulate("sd_a1", wrong)
    with pytest.raises(ValueError, match="no column `op`; their columns are sector, bytes"):
        fonio.simulate("sd_a1", polars_table.select("sector", "bytes", "queued_ns"))
    with pytest.raises(fonio.FonioError, match="no time of queueing"):
        fonio.simulate("sd_a1", polars_table.drop("queued_ns"))
    with pytest.raises(TypeError, match="requests must be a table with the Arrow interface.*it is int"):
        fonio.simulate("sd_a1", 5)
    with pytest.raises(fonio.FonioError, match="simulate a larger device"):
        fonio.simulate("sd_a1", polars_table.with_columns(sector=polars.lit(1 << 40)))


def test_wrong_names_get_the_nearest():
    with pytest.raises(ValueError, match="there is no profile `sd_a3`; the nearest name is `sd_a"):
        fonio.profile("sd_a3")
    with pytest.raises(ValueError, match="no scheduler `mq_deadline`; the nearest name is `mq-deadline`"):
        fonio.simulate("sd_a1", MIXED, "mq_deadline")
    with pytest.raises(ValueError, match="there is no key `flash.tprogram`; the nearest name is `flash.t_program`"):
        fonio.profile("sd_a1")["flash.tprogram"] = "1 ms"
    with pytest.raises(ValueError, match="does not fit the device"):
        fonio.simulate("sd_a1", fonio.ClosedLoop(10, range=1 << 40))
    with pytest.raises(ValueError, match="size must be a multiple of 512"):
        fonio.ClosedLoop(10, size=100)
    with pytest.raises(ValueError, match="capacity"):
        fonio.simulate("sd_a1", MIXED, capacity="lots")


def test_a_profile_is_a_dictionary(tmp_path):
    profile = fonio.profile("sd_a1")
    assert profile["flash.page"] == "8 KiB" and profile["device.depth"] == 1 and "slc.size" not in profile
    assert profile.sources["interface.read_rate"].kind == "published"
    changed = profile.changed({"flash.t_program": "0.9 ms", "device.fua": True})
    assert changed["flash.t_program"] == "900 us" and profile["flash.t_program"] != "900 us"
    assert changed.sources["flash.t_program"].kind == "chosen"
    assert dict(fonio.profile(dict(profile))) == dict(profile)
    (tmp_path / "card.toml").write_text(changed.to_toml())
    assert dict(fonio.profile(tmp_path / "card.toml")) == dict(changed)
    for key, value, message in (
        ("flash.t_program", "fast", "`fast` is not a time in ns, us, ms or s; write"),
        ("flash.t_program", "20 s", "must be between"),
        ("ftl.kind", "pagemap", "one of page_map, bast, fast"),
    ):
        with pytest.raises(ValueError, match=message):
            profile[key] = value
    with pytest.raises(ValueError, match="`flash.page` is missing"):
        del profile["flash.page"]
        profile.check()
    assert set(fonio.profiles()) >= {"sd_a1", "ufs40"} and all(fonio.Profile.meanings().values())
    for name in fonio.profiles():
        assert dict(fonio.profile(name))


class Broken:
    """A scheduler with a fault."""

    def __init__(self, fault):
        self.fault, self.queue = fault, []

    def insert(self, request, now):
        self.queue.append(request)

    def dispatch(self, now, in_flight):
        if self.fault == "raises":
            raise RuntimeError("a fault of my own")
        if self.fault == "holds back":
            return None
        if self.fault == "returns a number":
            return 5
        return self.queue[0]


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("raises", RuntimeError, "a fault of my own"),
        ("holds back", ValueError, "holds all .* requests back.*next_timer"),
        ("returns a number", ValueError, "must return a request that it got from insert"),
        ("repeats", ValueError, "returned request 0, which does not wait any longer"),
    ],
)
def test_a_fault_of_a_scheduler_ends_the_run(fault, error, message):
    with pytest.raises(error, match=message):
        fonio.simulate("sd_a1", MIXED, Broken(fault), capacity="256 MiB")


def test_a_fault_of_a_translation_layer_ends_the_run():
    class Wrong:
        def __init__(self, geometry):
            self.dies = geometry.dies

        def write(self, unit, work):
            work.program_host_page(self.dies)

        def locate(self, unit):
            return None

    with pytest.raises(ValueError, match="there is no die 1; the device has 1 dies"):
        fonio.simulate("sd_a1", MIXED, capacity="256 MiB", ftl=Wrong)
    with pytest.raises(ValueError, match="has no method locate|has no method write"):
        fonio.simulate("sd_a1", MIXED, capacity="256 MiB", ftl=lambda geometry: object())
    with pytest.raises(ValueError, match="without flash"):
        fonio.simulate("ram", MIXED, capacity="256 MiB", ftl=Wrong)
    with pytest.raises(ValueError, match="methods insert and dispatch"):
        fonio.simulate("sd_a1", MIXED, scheduler=5, capacity="256 MiB")


def test_preparation_is_not_counted():
    overwrites = fonio.ClosedLoop(2000, reads=0.0)
    fresh = fonio.simulate("sd_a1", overwrites, capacity="64 MiB")
    fill = fonio.ClosedLoop(128, size=512 << 10, order="sequential")
    used = fonio.simulate("sd_a1", overwrites, capacity="64 MiB", prepare=[fill, fonio.ClosedLoop(20_000)])
    assert used.requests.rows == fresh.requests.rows == 2000
    assert used.write_amplification > fresh.write_amplification
    assert times(used)["queued_ns"].min() == 0


def test_a_sweep_gives_the_results_of_its_simulations():
    arguments = {"changes": {"ftl.spare": ["7 %", "28 %"]}, "seeds": [1, 2], "capacity": "64 MiB"}
    alone, together = (
        fonio.sweep(["sd_a1"], MIXED, ["noop", "bfq"], threads=threads, **arguments) for threads in (1, 2)
    )
    assert len(alone) == 8 and alone.summaries == together.summaries
    for varied, summary in zip(alone.varied, alone.summaries, strict=True):
        profile = fonio.profile("sd_a1", {"ftl.spare": varied["ftl.spare"]})
        one = fonio.simulate(profile, MIXED, varied["scheduler"], seed=varied["seed"], capacity="64 MiB")
        assert one.summary == summary
    row = alone.rows()[0]
    assert row["profile"] == "sd_a1" and row["read_response_p99_ns"] > 0 and row["write_amplification"] >= 1
    assert alone.to_pandas().shape[0] == 8
    with pytest.raises(ValueError, match="at least one"):
        fonio.sweep([], MIXED)


def test_ctrl_c_interrupts_a_simulation():
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(Stop):
            fonio.simulate("sd_a1", fonio.ClosedLoop(2_000_000), capacity="64 MiB")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_summary_is_plain_data():
    result = fonio.simulate("ufs31", fonio.open(RECORDING).requests)
    assert json.loads(json.dumps(result.summary)) == result.summary
    assert os.fspath(str(result)).startswith("<fonio.Simulation of ufs31 with noop")


def test_a_replay_is_that_of_the_program(program, tmp_path):
    words = ["replay", RECORDING, "--on", "model:ridata,ufs31", "--scheduler", "noop,bfq", "--seed", "3", "--json"]
    words += ["--change", "flash.t_program=1ms,2ms", "-o", tmp_path / "out"]
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    replay = fonio.Replay(RECORDING)
    assert (replay.accesses, replay.left_out) == (printed["accesses"], printed["left_out"])
    changes = {"flash.t_program": ["1ms", "2ms"]}
    sweep = fonio.sweep(["ridata", "ufs31"], replay, ["noop", "bfq"], changes=changes, seeds=[3], capacity="2GiB")
    assert len(sweep) == 8
    assert [run["summary"] for run in printed["runs"]] == sweep.summaries
    kept = json.loads((tmp_path / "out/summary.json").read_text(encoding="utf-8"))
    assert kept["runs"] == printed["runs"]
    # Each recording has the requests of its run.
    names = [os.path.basename(path) for path in kept["recordings"]]
    assert names[0] == "01-ridata-flash.t_program=1ms-noop" and len(names) == 8
    for name, varied in zip(names, sweep.varied, strict=True):
        profile = fonio.profile(varied["profile"], {"flash.t_program": varied["flash.t_program"]})
        ours = fonio.simulate(profile, replay, varied["scheduler"], seed=3, capacity="2GiB")
        # A recording has the order of issue.
        theirs = fonio.open(tmp_path / "out" / name).requests.to_polars().sort("request_id")
        columns = ("request_id", "op", "sector", "bytes", "queued_ns", "issued_ns", "completed_ns", "tid")
        assert theirs.select(columns).equals(ours.requests.to_polars().select(columns))
        assert theirs.height == ours.requests.rows


def test_a_replay_waits_for_its_device():
    recording = fonio.open(RECORDING)
    replay, fast = fonio.Replay(recording), fonio.Replay(recording, fast=True)
    slow_card, quick_card = (fonio.simulate(card, replay, capacity="2 GiB") for card in ("ridata", "ufs31"))
    # With given times, the last request is queued at the same time on every device.
    queued = [int(times(result)["queued_ns"].max()) for result in (slow_card, quick_card)]
    assert queued[1] < queued[0]
    without_pauses = fonio.simulate("ufs31", fast, capacity="2 GiB")
    assert without_pauses.summary["span_ns"] < quick_card.summary["span_ns"]
    assert without_pauses.requests.rows == quick_card.requests.rows >= replay.accesses
    with pytest.raises(ValueError, match="accesses .* of distinct data, but the device has 1MiB.*capacity="):
        fonio.simulate("sd_a1", replay, capacity="1 MiB")
    # A trace has no waits, but its threads wait for their own requests.
    for path in (BLKTRACE, STALL):
        assert fonio.simulate("ufs31", fonio.Replay(path), capacity="2 GiB").requests.rows > 0
