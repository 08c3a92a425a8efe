// Converts a chart of the report into an ECharts option.

import { largest } from "./data.js";
import { axisScale, clockScale, format, shown } from "./format.js";
import { colour, faded, heatColour, seriesColour } from "./theme.js";

const LARGE = 2000;

/// For axes where powers of ten are too far apart or not round numbers.
const LOG_BASES = { bytes: 4, bytes_per_s: 4, ratio: 2 };

/// Returns the option, the entries of the legend, and the divisor of the time axis.
export function chartOption(figure, narrow) {
  const ink = {
    text: colour("ink-2"),
    faint: colour("ink-3"),
    rule: colour("rule"),
    grid: colour("grid"),
    paper: colour("panel"),
    mark: colour("mark"),
  };
  const time = figure.x.scale === "time";
  const cloud = figure.plot === "scatter" || figure.plot === "heat_scatter";
  const x = divided(figure, "x");
  const y = divided(figure, "y");
  const shape = SHAPES[figure.plot](figure, x.factor, y.factor, ink);
  if (shape.series.length > 0) shape.series[0] = { ...shape.series[0], ...marks(figure, x.factor, y.factor, ink) };

  const option = {
    animation: false,
    backgroundColor: "transparent",
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: ink.text },
    aria: { enabled: true, label: { description: `${figure.title}. ${figure.caption}` } },
    legend: { show: false },
    // Charts over time share the left edge, for vertical comparison.
    grid: time
      ? { left: narrow ? 58 : 70, right: narrow ? 10 : 22, top: 26, bottom: narrow ? 44 : 22, outerBoundsMode: "none" }
      : { left: 6, right: narrow ? 10 : 22, top: 26, bottom: 20, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    xAxis: axis(figure.x, x, ink, narrow, "x"),
    yAxis: axis(figure.y, y, ink, narrow, "y"),
    tooltip: {
      trigger: cloud || figure.plot === "interval" || figure.plot === "timeline" ? "item" : "axis",
      confine: true,
      backgroundColor: ink.paper,
      borderColor: ink.rule,
      padding: [6, 9],
      textStyle: { color: colour("ink"), fontSize: 12 },
      axisPointer: {
        type: figure.plot.endsWith("bar") ? "shadow" : "line",
        lineStyle: { color: ink.faint, type: "solid" },
        shadowStyle: { color: faded(ink.faint, 0.12) },
        label: { show: false },
      },
      formatter: (hit) => tooltip(figure, hit, x.factor, y.factor),
    },
    series: shape.series,
  };
  if (time) {
    option.dataZoom = [{
      type: "inside", xAxisIndex: 0, filterMode: "none",
      zoomOnMouseWheel: "ctrl", moveOnMouseMove: false, moveOnMouseWheel: false, preventDefaultMouseMove: false,
    }];
    if (narrow) {
      option.dataZoom.push({
        type: "slider", xAxisIndex: 0, filterMode: "none", height: 14, bottom: 4, showDetail: false, brushSelect: false,
        borderColor: ink.rule, fillerColor: faded(ink.faint, 0.18), handleStyle: { color: ink.paper, borderColor: ink.faint },
        showDataShadow: false,
      });
    }
    // Needed for zooming by dragging; its own buttons are hidden.
    option.toolbox = {
      itemSize: 0, left: -100, top: -100,
      feature: {
        dataZoom: {
          yAxisIndex: "none", filterMode: "none", brushStyle: { color: faded(ink.faint, 0.2), borderColor: ink.faint },
        },
      },
    };
  }
  return { option, legend: shape.legend, timeFactor: time ? x.factor : null };
}

function divided(figure, name) {
  const own = figure[name];
  if (own.clock !== undefined) return clockScale(own);
  if (own.scale === "log" || own.categories) return { factor: 1, tick: (value) => format(value, own.unit) };
  let most = own.bounds ? own.bounds[1] : largest(figure.series, name);
  if (name === "y" && (figure.plot === "stacked_area" || figure.plot === "stacked_bar")) {
    most = Math.max(most, stackTop(figure.series));
  }
  for (const mark of figure.marks) if (name === "y" && mark.y > most) most = mark.y;
  return axisScale(own.unit, most);
}

function stackTop(series) {
  const sums = new Map();
  let most = 0;
  for (const { x, y } of series) {
    for (let at = 0; at < x.length; at += 1) {
      const sum = (sums.get(x[at]) ?? 0) + (y[at] || 0);
      sums.set(x[at], sum);
      if (sum > most) most = sum;
    }
  }
  return most;
}

function axis(own, { factor, tick }, ink, narrow, name) {
  const base = {
    name: own.scale === "time" ? "" : own.label,
    nameLocation: name === "x" ? "middle" : "end",
    nameTextStyle: name === "x"
      ? { color: ink.faint, fontSize: 11 }
      : { color: ink.faint, fontSize: 11, align: "left", padding: [0, 0, 0, 0] },
    nameGap: name === "x" ? 22 : 10,
    axisLine: { show: name === "x", lineStyle: { color: ink.rule } },
    axisTick: { show: name === "x", length: 3, lineStyle: { color: ink.rule } },
    splitLine: { show: true, lineStyle: { color: ink.grid } },
    axisLabel: { color: ink.text, fontSize: 11, hideOverlap: true },
  };
  if (own.categories) {
    // Names on a vertical axis have more space.
    const long = narrow ? (name === "y" ? 24 : 16) : 48;
    return {
      ...base,
      type: "category",
      data: own.categories,
      inverse: name === "y",
      name: name === "x" ? own.label : "",
      splitLine: { show: false },
      axisTick: { show: false },
      axisLabel: {
        ...base.axisLabel,
        interval: name === "y" ? 0 : "auto",
        formatter: (text) => (text.length > long ? `${text.slice(0, long / 2)}…${text.slice(1 - long / 2)}` : text),
      },
    };
  }
  // An axis from 0 to 100 % is divided into quarters; for other ranges, the chart library decides.
  const whole = own.unit === "share" && own.bounds?.[0] === 0 && own.bounds?.[1] === 1 ? { interval: 25 } : {};
  const bounds = own.bounds ? { min: own.bounds[0] / factor, max: own.bounds[1] / factor } : {};
  if (own.scale === "log") {
    return {
      ...base, ...bounds, type: "log", logBase: LOG_BASES[own.unit] ?? 10,
      axisLabel: { ...base.axisLabel, formatter: tick },
      minorSplitLine: { show: false },
    };
  }
  return {
    ...base, ...bounds, ...whole, type: "value",
    // This axis does not start at zero.
    scale: own.unit === "millicelsius",
    splitNumber: name === "x" ? (narrow ? 4 : 8) : 4,
    splitLine: { show: name === "y", lineStyle: { color: ink.grid } },
    axisLabel: {
      ...base.axisLabel, formatter: tick,
      // The recording's end is rarely a round number; its label would overlap the last tick.
      showMaxLabel: own.scale === "time" ? false : null,
    },
  };
}

/// The points as pairs. Points that a logarithmic axis cannot show are omitted.
function pairs(figure, series, xf, yf) {
  const { x, y } = series;
  const logX = figure.x.scale === "log";
  const logY = figure.y.scale === "log";
  const out = [];
  for (let at = 0; at < x.length; at += 1) {
    // Unknown values interrupt a line; values without a logarithm are omitted.
    if ((logX && x[at] <= 0) || (logY && y[at] <= 0)) continue;
    out.push([x[at] / xf, Number.isNaN(y[at]) ? null : y[at] / yf]);
  }
  return out;
}

function flat(figure, keep, xs, ys, xf, yf) {
  const out = new Float32Array(xs.length * 2);
  let used = 0;
  for (let at = 0; at < xs.length; at += 1) {
    if (!keep(at)) continue;
    out[used] = xs[at] / xf;
    out[used + 1] = ys[at] / yf;
    used += 2;
  }
  return out.subarray(0, used);
}

function legendOf(series) {
  return series.map(({ name, role }) => ({ name, colour: seriesColour(role) }));
}

function lines(extra) {
  return (figure, xf, yf) => ({
    legend: legendOf(figure.series),
    series: figure.series.map((series) => {
      const data = pairs(figure, series, xf, yf);
      const known = (at) => data[at] !== undefined && data[at][1] !== null;
      return {
        type: "line",
        name: series.name,
        data,
        showSymbol: true,
        // A point between two unknown ones has no line.
        symbol: (value, { dataIndex: at }) =>
          known(at) && !known(at - 1) && !known(at + 1) ? "circle" : "none",
        symbolSize: series.x.length === 1 ? 5 : 3,
        lineStyle: { width: 1.5 },
        itemStyle: { color: seriesColour(series.role) },
        emphasis: { disabled: true },
        ...extra(series, figure),
      };
    }),
  });
}

function bars(stack) {
  return (figure, xf, yf, ink) => {
    const sideways = Boolean(figure.y.categories);
    const names = (sideways ? figure.y : figure.x).categories;
    return {
      legend: legendOf(figure.series),
      series: figure.series.map((series) => {
        const values = new Array(names.length).fill(null);
        const [places, lengths, factor] = sideways ? [series.y, series.x, xf] : [series.x, series.y, yf];
        places.forEach((place, at) => { values[place] = lengths[at] / factor; });
        return {
          type: "bar",
          name: series.name,
          stack: stack ? "all" : undefined,
          data: values,
          barMaxWidth: sideways ? 16 : 40,
          barCategoryGap: names.length > 24 ? "10%" : "28%",
          itemStyle: { color: seriesColour(series.role), borderColor: ink.paper, borderWidth: stack ? 0.5 : 0 },
          emphasis: { disabled: true },
        };
      }),
    };
  };
}

/// `all` is the number of dots in the chart: more dots are drawn smaller and fainter.
function dots(name, colouring, data, all) {
  const count = data.length / 2;
  return {
    type: "scatter",
    name,
    data,
    large: count > LARGE,
    largeThreshold: LARGE,
    dimensions: ["x", "y"],
    symbolSize: all > 10000 ? 2 : all > 1000 ? 3.5 : 5,
    itemStyle: { color: colouring, opacity: all > 10000 ? 0.5 : all > 1000 ? 0.65 : 0.8 },
    emphasis: { disabled: true },
    progressive: 0,
  };
}

function total(figure) {
  return figure.series.reduce((sum, { x }) => sum + x.length, 0);
}

/// ECharts accepts packed pairs only in its mode for large series; small series are arrays.
function unpacked(series) {
  if (!series.large) {
    const { data } = series;
    series.data = Array.from({ length: data.length / 2 }, (_, at) => [data[2 * at], data[2 * at + 1]]);
  }
  return series;
}

function visible(figure, xs, ys) {
  const logX = figure.x.scale === "log";
  const logY = figure.y.scale === "log";
  return (at) => !((logX && !(xs[at] > 0)) || (logY && !(ys[at] > 0)));
}

const SHAPES = {
  line: lines(() => ({})),
  step: lines(() => ({ step: "end" })),
  stacked_area: lines((series) => ({
    stack: "all",
    lineStyle: { width: 0.8 },
    areaStyle: { color: faded(seriesColour(series.role), 0.55) },
  })),
  stacked_bar: bars(true),
  grouped_bar: bars(false),

  scatter: (figure, xf, yf) => ({
    legend: legendOf(figure.series),
    series: figure.series.map(({ name, role, x, y }) =>
      unpacked(dots(name, seriesColour(role), flat(figure, visible(figure, x, y), x, y, xf, yf), total(figure)))),
  }),

  // One series per power of ten of the third number keeps the legend readable and drawing fast.
  heat_scatter: (figure, xf, yf) => {
    const { z, x, y } = figure.series[0];
    const decades = new Map();
    for (let at = 0; at < z.length; at += 1) {
      const decade = z[at] > 0 ? Math.floor(Math.log10(z[at])) : 0;
      if (!decades.has(decade)) decades.set(decade, []);
      decades.get(decade).push(at);
    }
    const order = [...decades.keys()].sort((a, b) => a - b);
    const legend = [];
    const series = order.map((decade, step) => {
      const name = `${format(10 ** decade, figure.z.unit)} – ${format(10 ** (decade + 1), figure.z.unit)}`;
      const members = decades.get(decade);
      const rgb = heatColour(step, order.length);
      legend.push({ name, colour: rgb });
      const seen = visible(figure, x, y);
      const packed = new Float32Array(members.length * 2);
      let used = 0;
      for (const at of members) {
        if (!seen(at)) continue;
        packed[used] = x[at] / xf;
        packed[used + 1] = y[at] / yf;
        used += 2;
      }
      const cloud = unpacked(dots(name, rgb, packed.subarray(0, used), z.length));
      // Slow requests are rare and important, so they are emphasised.
      if (step >= order.length - 2) {
        cloud.symbolSize += 1.5;
        cloud.itemStyle.opacity = 0.9;
      }
      return cloud;
    });
    return { legend, series };
  },

  interval: (figure, xf) => ({
    legend: legendOf(figure.series),
    series: figure.series.map((series) => {
      const rgb = seriesColour(series.role);
      return {
        type: "custom",
        name: series.name,
        encode: { x: [0, 2, 3], y: 1 },
        data: Array.from(series.x, (point, at) =>
          [point / xf, series.y[at], series.low[at] / xf, series.high[at] / xf]),
        itemStyle: { color: rgb },
        renderItem: (params, api) => {
          const [from, row] = api.coord([api.value(2), api.value(1)]);
          const [to] = api.coord([api.value(3), api.value(1)]);
          const [at] = api.coord([api.value(0), api.value(1)]);
          const stroke = { stroke: rgb, lineWidth: 2, fill: rgb };
          const children = [
            { type: "line", shape: { x1: from, y1: row, x2: to, y2: row }, style: stroke },
            { type: "line", shape: { x1: from, y1: row - 4, x2: from, y2: row + 4 }, style: stroke },
            { type: "line", shape: { x1: to, y1: row - 4, x2: to, y2: row + 4 }, style: stroke },
          ];
          if (Number.isFinite(api.value(0))) {
            children.push({ type: "circle", shape: { cx: at, cy: row, r: 4 }, style: { fill: rgb } });
          }
          return { type: "group", children };
        },
      };
    }),
  }),

  timeline: (figure, xf) => ({
    legend: legendOf(figure.series),
    series: figure.series.map((series) => {
      const rgb = seriesColour(series.role);
      return {
        type: "custom",
        name: series.name,
        clip: true,
        encode: { x: [1, 2], y: 0 },
        data: Array.from(series.low, (low, at) => [series.y[at], low / xf, series.high[at] / xf]),
        itemStyle: { color: rgb },
        renderItem: (params, api) => {
          const [from, row] = api.coord([api.value(1), api.value(0)]);
          const [to] = api.coord([api.value(2), api.value(0)]);
          // Keep short waits visible.
          const shape = { x: from, y: row - 7, width: Math.max(to - from, 1.5), height: 14 };
          return { type: "rect", shape, style: { fill: rgb } };
        },
      };
    }),
  }),
};

function marks(figure, xf, yf, ink) {
  const lines = [];
  const areas = [];
  const label = { color: ink.faint, fontSize: 10.5 };
  for (const mark of figure.marks) {
    if (mark.from !== undefined) {
      areas.push([{ xAxis: mark.from / xf, name: mark.label }, { xAxis: mark.to / xf }]);
    } else if (mark.x !== undefined) {
      // Categories are listed from top to bottom, so the label of a vertical line is at the axis.
      const position = figure.y.categories ? "start" : "end";
      lines.push({ xAxis: mark.x / xf, name: mark.label, label: { ...label, position, distance: 3, formatter: "{b}" } });
    } else {
      lines.push({ yAxis: mark.y / yf, name: mark.label, label: { ...label, position: "insideEndTop", formatter: "{b}" } });
    }
  }
  return {
    markLine: lines.length === 0 ? undefined : {
      silent: true, symbol: "none", data: lines, lineStyle: { color: ink.mark, type: [4, 3], width: 1 },
    },
    markArea: areas.length === 0 ? undefined : {
      silent: true, data: areas, itemStyle: { color: faded(ink.mark, 0.09) },
      label: { ...label, position: "insideTopLeft" },
    },
  };
}

/// Built from nodes, never from markup, because names are untrusted.
function tooltip(figure, hit, xf, yf) {
  const hits = Array.isArray(hit) ? hit : [hit];
  if (hits.length === 0) return "";
  const box = document.createElement("div");
  box.className = "tip";
  const head = box.appendChild(document.createElement("b"));
  const table = box.appendChild(document.createElement("table"));
  const row = (rgb, label, value) => {
    const tr = table.insertRow();
    const key = tr.insertCell();
    if (rgb) key.appendChild(document.createElement("i")).style.background = rgb;
    key.append(label);
    tr.insertCell().textContent = value;
  };
  const sideways = Boolean(figure.y.categories);
  const place = sideways ? figure.y : figure.x;
  const measure = sideways ? figure.x : figure.y;
  const [placeFactor, measureFactor] = sideways ? [yf, xf] : [xf, yf];
  const where = (value) => (place.categories ? place.categories[value] ?? String(value) : shown(value * placeFactor, place));

  if (figure.plot === "interval") {
    const [point, at, low, high] = hits[0].value;
    head.textContent = figure.y.categories[at];
    if (Number.isFinite(point)) row(hits[0].color, "Best estimate", format(point * xf, figure.x.unit));
    row(null, "Interval", `${format(low * xf, figure.x.unit)} … ${format(high * xf, figure.x.unit)}`);
  } else if (figure.plot === "timeline") {
    const { seriesName, color, value: [at, low, high] } = hits[0];
    head.textContent = figure.y.categories[at];
    row(color, seriesName, format((high - low) * xf, figure.x.unit));
    row(null, "Began at", shown(low * xf, figure.x));
  } else if (figure.plot === "scatter" || figure.plot === "heat_scatter") {
    const { seriesName, color, value } = hits[0];
    if (!value) return "";
    head.textContent = seriesName;
    row(color, figure.x.label, format(value[0] * xf, figure.x.unit));
    row(null, figure.y.label, format(value[1] * yf, figure.y.unit));
  } else {
    head.textContent = place.categories ? hits[0].name : where(hits[0].axisValue);
    for (const { seriesName, color, value } of hits) {
      const own = Array.isArray(value) ? value[1] : value;
      if (own === null || own === undefined || (hits.length > 3 && own === 0)) continue;
      row(color, seriesName, format(own * measureFactor, measure.unit));
    }
  }
  return box;
}
