// Decodes the data of a chart from the page.

/// Short series are arrays; long ones are base64 of little-endian 32-bit floats.
function numbers(packed) {
  if (Array.isArray(packed)) return Float64Array.from(packed, (value) => (value === null ? NaN : value));
  const bytes = Uint8Array.from(atob(packed.f32), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const out = new Float32Array(bytes.length / 4);
  for (let at = 0; at < out.length; at += 1) out[at] = view.getFloat32(at * 4, true);
  return out;
}

const NONE = new Float64Array(0);

export function readFigure(host) {
  const script = host.querySelector("script[type='application/json']");
  const figure = JSON.parse(script.textContent);
  for (const series of figure.series) {
    for (const name of ["x", "y", "z", "low", "high"]) {
      series[name] = series[name] === undefined ? NONE : numbers(series[name]);
    }
  }
  return figure;
}

export function largest(series, name) {
  let most = 0;
  for (const one of series) {
    for (const value of one[name]) if (value > most) most = value;
  }
  return most;
}
