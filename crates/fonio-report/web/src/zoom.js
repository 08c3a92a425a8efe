// Zooms all charts over time together, and shows one vertical line under the pointer in all of them.

/// In seconds; null while the complete time is shown.
let shown = null;
const charts = new Map();
let button;

export function installZoomButton() {
  button = document.getElementById("unzoom");
  button.addEventListener("click", () => zoomTo(null));
}

export function currentZoom() {
  return shown;
}

/// `factor` is the divisor of seconds in the chart.
export function joinTimeCharts(chart, host, factor) {
  const line = document.createElement("i");
  line.className = "crosshair";
  line.hidden = true;
  host.append(line);
  charts.set(chart, { factor, line });

  // Dragging across a chart zooms; on a touch screen it scrolls the page, and the slider zooms.
  if (!matchMedia("(pointer: coarse)").matches) {
    chart.dispatchAction({ type: "takeGlobalCursor", key: "dataZoomSelect", dataZoomSelectActive: true });
  }
  let applying = false;
  chart.on("datazoom", (event) => {
    if (applying) return;
    const { startValue, endValue } = event.batch ? event.batch[0] : event;
    if (startValue === undefined || endValue <= startValue) return;
    applying = true;
    zoomTo([startValue * factor, endValue * factor]);
    applying = false;
  });
  const area = chart.getZr();
  area.on("dblclick", () => zoomTo(null));
  area.on("mousemove", (event) => {
    if (!chart.containPixel("grid", [event.offsetX, event.offsetY])) return hideLines();
    const seconds = chart.convertFromPixel({ xAxisIndex: 0 }, event.offsetX) * factor;
    for (const [other, { factor: divided, line: own }] of charts) {
      const x = other.convertToPixel({ xAxisIndex: 0 }, seconds / divided);
      own.hidden = other === chart || !other.containPixel("grid", [x, other.getHeight() / 2]);
      own.style.left = `${x}px`;
    }
  });
  area.on("globalout", hideLines);
}

export function leaveTimeCharts(chart) {
  charts.get(chart)?.line.remove();
  charts.delete(chart);
}

function hideLines() {
  for (const { line } of charts.values()) line.hidden = true;
}

function zoomTo(span) {
  if (String(span) === String(shown)) return;
  shown = span;
  button.hidden = span === null;
  for (const [chart, { factor }] of charts) {
    chart.dispatchAction(span === null
      ? { type: "dataZoom", dataZoomIndex: 0, start: 0, end: 100 }
      : { type: "dataZoom", dataZoomIndex: 0, startValue: span[0] / factor, endValue: span[1] / factor });
  }
}
