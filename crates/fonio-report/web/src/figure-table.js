// Shows a chart's numbers as a table, created on demand.

import { format, shown } from "./format.js";

const ROWS = 1000;

export function figureTable(host, read) {
  const details = host.querySelector("details");
  details.hidden = false;
  details.addEventListener("toggle", () => {
    const place = details.querySelector("div");
    if (details.open && place.childElementCount === 0) place.append(...build(read()));
  });
}

function build(figure) {
  const table = document.createElement("table");
  table.className = "number";
  const cloud = figure.plot.endsWith("scatter");
  const sideways = Boolean(figure.y.categories);
  const [place, measure] = sideways ? [figure.y, figure.x] : [figure.x, figure.y];
  const where = (value) => (place.categories ? place.categories[value] : shown(value, place));

  const head = table.createTHead().insertRow();
  const body = table.createTBody();
  const heading = (text) => {
    const th = document.createElement("th");
    th.textContent = text;
    head.append(th);
  };
  const row = (cells) => {
    const tr = body.insertRow();
    for (const text of cells) tr.insertCell().textContent = text;
  };

  let left = 0;
  const spans = figure.plot === "interval" || figure.plot === "timeline";
  if (cloud || spans) {
    ["Series", figure.x.label, figure.y.label, figure.z?.label ?? (spans ? "Interval" : null)]
      .filter((text) => text !== null).forEach(heading);
    for (const { name, x, y, z, low, high } of figure.series) {
      for (let at = 0; at < x.length; at += 1) {
        if (body.rows.length >= ROWS) { left += 1; continue; }
        // The length of a span uses the axis unit.
        const cells = [name, spans ? format(x[at], figure.x.unit) : shown(x[at], figure.x), sideways ? where(y[at]) : format(y[at], figure.y.unit)];
        if (figure.z) cells.push(format(z[at], figure.z.unit));
        if (low.length > 0) cells.push(`${shown(low[at], figure.x)} … ${shown(high[at], figure.x)}`);
        row(cells);
      }
    }
  } else {
    heading(place.label);
    figure.series.forEach(({ name }) => heading(name));
    const rows = new Map();
    figure.series.forEach((series, index) => {
      const [places, values] = sideways ? [series.y, series.x] : [series.x, series.y];
      places.forEach((value, at) => {
        if (!rows.has(value)) rows.set(value, new Array(figure.series.length).fill(NaN));
        rows.get(value)[index] = values[at];
      });
    });
    const order = [...rows.keys()].sort((a, b) => a - b);
    for (const key of order.slice(0, ROWS)) row([where(key), ...rows.get(key).map((value) => format(value, measure.unit))]);
    left = Math.max(0, order.length - ROWS);
  }
  const out = [table];
  if (left > 0) {
    const more = document.createElement("p");
    more.textContent = `${left} more are in the JSON report and the recording.`;
    out.push(more);
  }
  return out;
}
