"""The simulator against MQSim, and the shipped profiles against the measurements of their devices."""

import json
import math
import subprocess

import mqsim
import polars
import pytest
from inputs import ROOT

import fonio

KEPT = json.loads((ROOT / "studies/results/python-mqsim.json").read_text(encoding="utf-8"))
# fonio's response time divided by MQSim's, and the largest deviation from this ratio. docs/python.md has the reasons.
EXPLAINED = {
    "reads, 1 die, depth 1": (1, 0.01),
    # A die reads the next page while it transfers one, which takes 25 us.
    "reads, 1 die, depth 4": (75 / 100, 0.01),
    "reads, 2 channels of 2 dies, depth 8": (75 / 100, 0.05),
    "writes, 1 die, depth 1": (1, 0.01),
    "writes, 1 die, depth 4": (750 / 775, 0.01),
    # With random addresses, MQSim's dies are not used evenly: 8 writes on 4 dies take longer than 2 programs.
    "writes, 2 channels of 2 dies, depth 8": (0.79, 0.05),
    "70 % reads, 1 die, depth 2": (0.91, 0.05),
    # MQSim keeps more blocks free, and begins in an estimated state.
    "100,000 writes, 28 % of the flash spare": (0.92, 0.05),
    "1,000,000 writes, 28 % of the flash spare": (0.84, 0.05),
    "1,000,000 writes, 28 % spare, MQSim keeps 3 blocks free": (0.93, 0.05),
    "100,000 writes, 40 % of the flash spare": (0.97, 0.05),
    "1,000,000 writes, 40 % of the flash spare": (0.93, 0.05),
    "1,000,000 writes, 40 % spare, MQSim keeps 3 blocks free": (0.96, 0.05),
}


def kept(name):
    """The values of an experiment in the result file, by column."""
    row = next(row for row in KEPT["rows"] if row["name"] == name)
    return {column: cell["values"][0] for column, cell in zip(KEPT["columns"][1:], row["cells"], strict=True)}


@pytest.mark.parametrize("experiment", mqsim.EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_the_simulator_agrees_with_mqsim(experiment):
    found, expected = experiment.fonio(), kept(experiment.name)
    # The result file is up to date: it has the numbers of this build.
    assert found["response_us"] == pytest.approx(expected["response, fonio"], rel=1e-9)
    assert found["amplification"] == pytest.approx(expected["amplification, fonio"], rel=1e-9)
    ratio, deviation = EXPLAINED[experiment.name]
    assert found["response_us"] / expected["response, MQSim"] == pytest.approx(ratio, rel=deviation)
    deviation = 0.13 if experiment.requests == 1_000_000 and experiment.kept_free == mqsim.KEPT_FREE else 0.04
    assert found["amplification"] == pytest.approx(expected["amplification, MQSim"], rel=deviation)


@pytest.mark.parametrize(("spare", "amplification"), [(0.28, 2.27), (0.40, 1.58)])
def test_the_blocks_that_mqsim_keeps_free_explain_its_amplification(spare, amplification):
    # 3 blocks are open: for the host, for copies, and for the map.
    full = (1 - spare) / (1 - (mqsim.KEPT_FREE + 3) / mqsim.DEVICE["Block_No_Per_Plane"])
    # Solve u = (x - 1) / ln x for the share x of valid pages in a victim.
    low, high = 0.0, full
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (middle - 1) / math.log(middle) < full else (low, middle)
    assert 1 / (1 - low) == pytest.approx(amplification, abs=0.005)
    name = f"1,000,000 writes, {spare:.0%} of the flash spare".replace("%", " %")
    assert kept(name)["amplification, MQSim"] == pytest.approx(amplification, rel=0.03)


def test_the_result_has_all_experiments():
    assert [row["name"] for row in KEPT["rows"]] == [experiment.name for experiment in mqsim.EXPERIMENTS]


def throughput(card, op, order, size, requests):
    """Returns the throughput in MB/s of a test of Kim et al. (Table III), as `fonio device verify` measures it.

    The first 1 GB is written and flushed, and the card rests for a second. Then a process uses 128 MiB.
    """
    second = 1_000_000_000
    filled = fonio.ClosedLoop(second // (512 << 10), size=512 << 10, order="sequential", range=second)
    loop = fonio.ClosedLoop(requests, reads=float(op == "read"), size=size, order=order, range=128 << 20)
    addresses = fonio.simulate(card, loop).requests.to_polars().select("op", "sector", "bytes")
    flush = polars.DataFrame({"op": ["flush"], "sector": [0], "bytes": [0], "queued_ns": [0]})
    flushed = fonio.simulate(card, flush, prepare=filled, depth=1).requests.to_polars()["completed_ns"].item()
    began = flushed + second
    # With one request in flight, requests that are queued together run like those of a process.
    load = addresses.with_columns(polars.col("op").cast(polars.String), queued_ns=polars.lit(began, dtype=polars.Int64))
    result = fonio.simulate(card, polars.concat([flush, load]), prepare=filled, depth=1)
    ended = result.requests.to_polars()["completed_ns"].max()
    return requests * size / 1e6 / ((ended - began) / 1e9)


@pytest.mark.parametrize("card", ["ridata", "transcend", "sandisk"])
def test_a_card_has_the_figures_of_its_check(card, program):
    words = [program, "device", "verify", card, "--json"]
    printed = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    (profile,) = printed["profiles"]
    given = {check["what"]: check["given"] for check in profile["checks"]}
    for name, op, order, size, requests in (
        ("seq_write", "write", "sequential", 512 << 10, 256),
        ("seq_read", "read", "sequential", 128 << 10, 1024),
        ("rand_write", "write", "random", 4096, 2048),
        ("rand_read", "read", "random", 4096, 2048),
    ):
        shown = given[f"kim-t3 {card} phone {name}"]
        digits = len(shown.removesuffix(" MB/s").partition(".")[2])
        assert f"{throughput(card, op, order, size, requests):.{digits}f} MB/s" == shown, name
