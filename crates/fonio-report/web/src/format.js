// Formats numbers for people, with the rules of `Unit::format` in fonio-core. A test compares both with the same texts.

function grouped(value) {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

function significant(value) {
  const decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : value >= 0.9995 || value === 0 ? 2 : value >= 0.09995 ? 3 : 4;
  const text = value.toFixed(decimals);
  if (!text.includes(".")) return text;
  const trimmed = text.replace(/\.?0+$/, "");
  return trimmed === "0" && value > 0 ? "<0.0001" : trimmed;
}

function plain(value) {
  if (value >= 999.5) return value < 1e15 ? grouped(value) : value.toExponential(2);
  return significant(value);
}

function duration(ns) {
  const seconds = ns / 1e9;
  if (seconds >= 5999.5) {
    const minutes = Math.round(seconds / 60);
    return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  }
  if (seconds >= 119.95) {
    const whole = Math.round(seconds);
    return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  }
  for (const [step, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns / step >= 0.9995) return `${significant(ns / step)} ${name}`;
  }
  return `${significant(ns)} ns`;
}

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function binary(bytes, per) {
  let at = 0;
  while (at + 1 < BINARY.length && bytes >= 1023.5) {
    bytes /= 1024;
    at += 1;
  }
  return `${plain(bytes).replace(/,/g, "")} ${BINARY[at]}${per}`;
}

function percent(share) {
  const value = share * 100;
  if (value > 0 && value < 0.01) return "<0.01 %";
  if (share < 1 && value >= 99.95) return ">99.9 %";
  return `${plain(Math.round(value * 100) / 100)} %`;
}

export function format(value, unit) {
  if (!Number.isFinite(value)) return "–";
  if (value < 0) return `-${format(-value, unit)}`;
  switch (unit) {
    case "ns": return duration(value);
    case "s": return duration(value * 1e9);
    case "bytes": return binary(value, "");
    case "bytes_per_s": return binary(value, "/s");
    case "count": return Number.isInteger(value) ? grouped(value) : plain(value);
    case "per_s": return `${plain(value)}/s`;
    case "share": return percent(value);
    case "ratio": return `${plain(value)}×`;
    case "millicelsius": return `${plain(value / 1000)} °C`;
    default: return plain(value);
  }
}

/// Writes a value of an axis. Axes of the wall clock have its time at 0 in `clock`: seconds since 1970, in the time zone of the
/// machine as if that was UTC.
export function shown(value, axis) {
  if (axis.clock === undefined || !Number.isFinite(value)) return format(value, axis.unit);
  return new Date((axis.clock + Math.round(value)) * 1000).toISOString().slice(0, 19).replace("T", " ");
}

const DAY = 86400;

/// Like `axisScale`, for the wall clock: ticks are times of day, and dates at midnight.
export function clockScale({ clock, bounds: [from, to] }) {
  const factor = to - from > 3 * DAY ? DAY : to - from > 3 * 3600 ? 3600 : 60;
  return {
    factor,
    tick: (value) => {
      const seconds = clock + Math.round(value * factor);
      const time = new Date(seconds * 1000);
      if (seconds % DAY !== 0) return time.toISOString().slice(11, 16);
      return time.toLocaleDateString("en", { month: "short", day: "numeric", timeZone: "UTC" });
    },
  };
}

const DECIMAL = [[1, " s"], [1e-3, " ms"], [1e-6, " µs"], [1e-9, " ns"]];

/// Chooses the unit of an axis so that its ticks are round numbers: data are divided by `factor`, and `tick` formats a
/// divided value.
export function axisScale(unit, largest) {
  const by = (factor, suffix) => ({
    factor,
    tick: (value) => (value === 0 ? "0" : `${Number(value.toPrecision(6))}${suffix}`),
  });
  if (unit === "bytes" || unit === "bytes_per_s") {
    let at = 0;
    while (at + 1 < BINARY.length && largest / 1024 ** at >= 1024) at += 1;
    return by(1024 ** at, ` ${BINARY[at]}${unit === "bytes" ? "" : "/s"}`);
  }
  if (unit === "s" && largest > 3 * 3600) return by(3600, " h");
  if (unit === "s" && largest > 300) return by(60, " min");
  if (unit === "s" || unit === "ns") {
    const perSecond = unit === "ns" ? 1e9 : 1;
    const [size, suffix] = DECIMAL.find(([size]) => largest >= size * perSecond) ?? DECIMAL.at(-1);
    return by(size * perSecond, suffix);
  }
  if (unit === "share") return by(0.01, " %");
  if (unit === "millicelsius") return by(1000, " °C");
  if ((unit === "count" || unit === "per_s" || unit === "number") && largest >= 1e4) {
    const [factor, suffix] = largest >= 1e9 ? [1e9, " G"] : largest >= 1e6 ? [1e6, " M"] : [1e3, " k"];
    return by(factor, suffix + (unit === "per_s" ? "/s" : ""));
  }
  return { factor: 1, tick: (value) => (value === 0 ? "0" : format(value, unit)) };
}
