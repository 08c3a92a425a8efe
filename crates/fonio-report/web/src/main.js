// The report's script: adds charts, sorting and the theme button. The page is readable without it.

import { readFigure } from "./data.js";
import { init } from "./echarts.js";
import { chartOption } from "./figures.js";
import { figureTable } from "./figure-table.js";
import { installFilters, withLanes } from "./filter.js";
import { installNotes } from "./notes.js";
import { installTables } from "./tables.js";
import { installThemeButton } from "./theme.js";
import { currentZoom, installZoomButton, joinTimeCharts, leaveTimeCharts } from "./zoom.js";

const NARROW = 560;

/// A chart on the page. It is created when scrolled near, and again after a change of theme or layout.
class Drawing {
  constructor(host) {
    this.host = host;
    this.canvas = host.querySelector(".chart");
    this.keys = host.querySelector(".keys");
    this.hidden = new Set();
    this.chart = null;
    this.figure = null;
    /// Returns whether a lane with this name is shown; null shows all lanes.
    this.lanes = null;
    this.height = host.style.getPropertyValue("--height");
  }

  /// Shows only some lanes of a timeline.
  showLanes(lanes) {
    if (this.read().plot !== "timeline") return;
    this.lanes = lanes;
    const count = this.shown().y.categories.length;
    this.host.style.setProperty("--height", lanes === null ? this.height : `${62 + 24 * count}px`);
    if (this.chart !== null) this.draw();
  }

  shown() {
    return this.lanes === null ? this.read() : withLanes(this.read(), this.lanes);
  }

  read() {
    this.figure ??= readFigure(this.host);
    return this.figure;
  }

  draw() {
    const figure = this.shown();
    this.release();
    this.narrow = this.canvas.clientWidth < NARROW;
    const { option, legend, timeFactor } = chartOption(figure, this.narrow);
    this.chart = init(this.canvas, null, { renderer: "canvas" });
    option.legend.selected = Object.fromEntries(legend.map(({ name }) => [name, !this.hidden.has(name)]));
    const zoom = currentZoom();
    if (timeFactor !== null && zoom !== null) {
      Object.assign(option.dataZoom[0], { startValue: zoom[0] / timeFactor, endValue: zoom[1] / timeFactor });
    }
    this.chart.setOption(option);
    if (timeFactor !== null) joinTimeCharts(this.chart, this.canvas, timeFactor);
    this.drawKeys(legend);
  }

  release() {
    if (this.chart === null) return;
    leaveTimeCharts(this.chart);
    this.chart.dispose();
    this.chart = null;
  }

  /// The legend: a button for each series that hides it.
  drawKeys(legend) {
    this.keys.replaceChildren();
    if (legend.length < 2) return;
    for (const { name, colour } of legend) {
      const key = document.createElement("button");
      key.type = "button";
      key.setAttribute("aria-pressed", String(!this.hidden.has(name)));
      key.appendChild(document.createElement("i")).style.background = colour;
      key.append(name);
      key.addEventListener("click", () => {
        const shown = this.hidden.has(name);
        if (shown) this.hidden.delete(name);
        else this.hidden.add(name);
        key.setAttribute("aria-pressed", String(shown));
        this.chart.dispatchAction({ type: "legendToggleSelect", name });
      });
      this.keys.append(key);
    }
  }

  resized() {
    if (this.chart === null) return;
    if (this.canvas.clientWidth < NARROW !== this.narrow) this.draw();
    else this.chart.resize();
  }
}

function start() {
  installZoomButton();
  installTables();
  installNotes();

  const drawings = new Map();
  for (const host of document.querySelectorAll("figure.plot")) drawings.set(host, new Drawing(host));
  const drawn = () => [...drawings.values()].filter(({ chart }) => chart !== null);

  installThemeButton(() => drawn().forEach((drawing) => drawing.draw()));

  const near = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const drawing = drawings.get(target);
      if (isIntersecting && drawing.chart === null) {
        drawing.draw();
        near.unobserve(target);
      }
    }
  }, { rootMargin: "400px 0px" });
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) drawings.get(target.closest("figure")).resized();
  });
  for (const [host, drawing] of drawings) {
    near.observe(host);
    sizes.observe(drawing.canvas);
    figureTable(host, () => drawing.read());
  }

  installFilters((section, lanes) => {
    for (const host of section.querySelectorAll("figure.plot")) drawings.get(host).showLanes(lanes);
  });

  // A printed page is white and contains all charts, including those not yet created.
  const root = document.documentElement;
  let before;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    for (const drawing of drawings.values()) drawing.draw();
  });
  addEventListener("afterprint", () => {
    if (before === undefined) delete root.dataset.theme;
    else root.dataset.theme = before;
    drawn().forEach((drawing) => drawing.draw());
  });
}

start();
