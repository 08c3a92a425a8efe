"""Draws charts with Altair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fonio.plot.data import COLOURS, Chart

if TYPE_CHECKING:
    import altair


def draw(chart: Chart) -> altair.TopLevelMixin:
    """Draws a chart with interactive tooltips and zoom."""
    import altair

    title: Any = altair.Title(chart.title, subtitle=chart.note, anchor="start") if chart.note else chart.title
    made = _map(chart) if chart.kind == "map" else _marks(chart)
    return made.properties(title=title, width=520, height=280)


def _marks(chart: Chart) -> Any:
    import altair

    rows = [
        {"series": name, "x": x, "y": y}
        for name, values in chart.series.items()
        for x, y in zip(*values, strict=True)
        if not ((chart.log_x and x <= 0) or (chart.log_y and y <= 0))
    ]
    base = altair.Chart(altair.Data(values=rows))
    x_scale = altair.Scale(type="log") if chart.log_x else altair.Scale()
    y_scale = altair.Scale(type="log") if chart.log_y else altair.Scale()
    x = altair.X("x:Q", title=chart.x, scale=x_scale)
    y = altair.Y("y:Q", title=chart.y, scale=y_scale)
    known = [name for name in chart.series if name in COLOURS]
    scale = altair.Scale(domain=known, range=[COLOURS[name] for name in known]) if known else altair.Scale()
    colour = altair.Color("series:N", title=None, scale=scale)
    if chart.kind == "step":
        return base.mark_line(interpolate="step-after").encode(x=x, y=y, color=colour).interactive()
    if chart.kind == "scatter":
        marks = base.mark_circle(size=14, opacity=0.6)
        return marks.encode(x=x, y=y, color=colour, tooltip=["series:N", "x:Q", "y:Q"]).interactive()
    if chart.kind == "stacked_bars":
        return base.mark_bar().encode(
            x=altair.X("y:Q", title=chart.x),
            y=altair.Y("x:N", title=None, sort=None),
            color=altair.Color("series:N", title=None),
            tooltip=["x:N", "series:N", "y:Q"],
        )
    return base.mark_bar(color="#0072B2").encode(x=altair.X("x:O", title=chart.x), y=y, tooltip=["x:O", "y:Q"])


def _map(chart: Chart) -> Any:
    import altair

    (unit, (cells, ((left, right), (bottom, top)))) = next(iter(chart.series.items()))
    high, wide = len(cells), len(cells[0]) if cells else 0
    width, height = (right - left) / max(wide, 1), (top - bottom) / max(high, 1)
    rows = [
        {
            "x": left + column * width,
            "x2": left + (column + 1) * width,
            "y": bottom + row * height,
            "y2": bottom + (row + 1) * height,
            "value": value,
        }
        for row, line in enumerate(cells)
        for column, value in enumerate(line)
        if value > 0
    ]
    scale = altair.Scale(zero=False)
    return (
        altair.Chart(altair.Data(values=rows))
        .mark_rect()
        .encode(
            x=altair.X("x:Q", title=chart.x, scale=scale),
            x2="x2:Q",
            y=altair.Y("y:Q", title=chart.y, scale=scale),
            y2="y2:Q",
            color=altair.Color("value:Q", title=unit, scale=altair.Scale(type="log", scheme="viridis")),
            tooltip=[altair.Tooltip("value:Q", title=unit)],
        )
    )
