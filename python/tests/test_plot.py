"""Charts: they show the numbers of the report, in both libraries."""

import pytest
from inputs import BLKTRACE, RECORDING

import fonio
from fonio import plot
from fonio.plot import data

FUNCTIONS = [getattr(plot, name) for name in plot.__all__]


@pytest.mark.parametrize("draw", FUNCTIONS, ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("path", [RECORDING, BLKTRACE], ids=lambda path: path.name)
def test_every_chart_is_drawn_by_both_libraries(draw, path, tmp_path):
    recording = fonio.open(path)
    arguments = {"op": "read"} if draw is plot.where_on_the_device else {}
    draw(recording, **arguments).savefig(tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 5000
    chart = draw(recording.report(), backend="altair", **arguments).to_dict()
    values = chart["data"]["values"]
    assert values and chart["title"]


def test_the_charts_show_the_numbers_of_the_report():
    analysis = fonio.open(RECORDING).report().analysis
    for name, (times, shares) in data.latencies(analysis, "response").series.items():
        group = next(group for group in analysis["latency"]["groups"] if group["group"] == name)
        assert shares[-1] == 1 and list(shares) == sorted(shares) and list(times) == sorted(times)
        assert times[-1] >= group["response_ns"]["max"] / 1e6
    points = data.over_time(analysis).series
    assert sum(len(x) for x, _ in points.values()) == analysis["points"]["of_requests"]
    ((cells, _),) = data.addresses(analysis, 0, "write").series.values()
    assert sum(map(sum, cells)) * 1024 == pytest.approx(analysis["totals"]["write_bytes"])
    waited = sum(sum(seconds) for _, seconds in data.waits(analysis).series.values())
    assert waited == pytest.approx(sum(program["time_ns"] for program in analysis["blocked"]["programs"]) / 1e9)
    ((_, shares),) = data.depths(analysis, 0).series.values()
    assert sum(shares) == pytest.approx(1)


def test_a_simulation_is_drawn():
    result = fonio.simulate("sd_a1", fonio.ClosedLoop(500, reads=0.5), capacity="64 MiB")
    figure = plot.how_long_did_requests_take(result)
    assert len(figure.axes[0].lines) >= 2


def test_wrong_arguments_get_one_sentence():
    recording = fonio.open(RECORDING)
    for call, message in (
        (lambda: plot.who_waited(recording, backend="gnuplot"), "backend must be matplotlib or altair"),
        (lambda: plot.how_long_did_requests_take(recording, time="total"), "time must be response or service"),
        (lambda: plot.where_on_the_device(recording, device=9), "has no device 9; it has 0"),
        (lambda: plot.where_on_the_device(recording, op="erase"), "op must be read or write"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="give a Recording, a Report or a Simulation, not str"):
        plot.who_waited("recording")
