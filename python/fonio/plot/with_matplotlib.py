"""Draws charts with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fonio.plot.data import COLOURS, Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


def draw(chart: Chart) -> Figure:
    """Draws a chart. The figure belongs to the caller, not to pyplot's list of open figures."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    _KINDS[chart.kind](axes, chart)
    axes.set_title(chart.title, loc="left")
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    if chart.log_x:
        axes.set_xscale("log", base=chart.base_x)
        _plain(axes.xaxis)
    if chart.log_y:
        axes.set_yscale("log")
        _plain(axes.yaxis)
    if len(chart.series) > 1:
        # Beside the chart, because it would cover points.
        axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    axes.spines[["top", "right"]].set_visible(False)
    if chart.note:
        figure.text(0.01, -0.04, chart.note, fontsize="small", color="#555555")
    return figure


def _plain(axis: Axis) -> None:
    """Writes 100 in place of 10²."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _colour(name: str) -> str | None:
    return COLOURS.get(name)


def _steps(axes: Axes, chart: Chart) -> None:
    for name, (x, y) in chart.series.items():
        axes.step(x, y, where="post", label=name, color=_colour(name))
    axes.set_ylim(0, 1.02)


def _scatter(axes: Axes, chart: Chart) -> None:
    for name, (x, y) in chart.series.items():
        axes.scatter(x, y, s=6, alpha=0.6, linewidths=0, label=name, color=_colour(name))


def _map(axes: Axes, chart: Chart) -> None:
    from matplotlib.colors import LogNorm

    (unit, (cells, ((left, right), (bottom, top)))) = next(iter(chart.series.items()))
    largest = max((cell for row in cells for cell in row), default=0)
    least = min((cell for row in cells for cell in row if cell > 0), default=1)
    # Cells without accesses stay empty.
    shown = [[cell if cell > 0 else float("nan") for cell in row] for row in cells]
    norm = LogNorm(vmin=least, vmax=max(largest, least * 1.01))
    image = axes.imshow(
        shown,
        origin="lower",
        aspect="auto",
        extent=(left, right, bottom, top),
        norm=norm,
        cmap="viridis",
        interpolation="nearest",
    )
    _plain(axes.figure.colorbar(image, ax=axes, label=unit).ax.yaxis)


def _stacked_bars(axes: Axes, chart: Chart) -> None:
    from matplotlib import colormaps

    colours = colormaps["tab10"]
    base: list[float] = []
    for at, (name, (names, values)) in enumerate(chart.series.items()):
        base = base or [0.0] * len(names)
        axes.barh(range(len(names)), values, left=base, label=name, color=colours(at % 10))
        base = [low + value for low, value in zip(base, values, strict=True)]
        axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def _bars(axes: Axes, chart: Chart) -> None:
    from matplotlib.ticker import MaxNLocator

    for x, y in chart.series.values():
        axes.bar(x, y, width=0.8, color="#0072B2")
    axes.set_ylim(0, None)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


_KINDS = {"step": _steps, "scatter": _scatter, "map": _map, "stacked_bars": _stacked_bars, "bars": _bars}
