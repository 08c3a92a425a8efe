// Colours are defined only in the style sheet. Charts read them, so a theme change affects both.

const probe = document.createElement("i");
probe.hidden = true;

export function colour(name) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

/// The same colour with another opacity.
export function faded(rgb, alpha) {
  const [r, g, b] = rgb.match(/[\d.]+/g);
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

/// The colour of a series depends on what it represents, never on its position.
export function seriesColour(role) {
  return colour(`s-${role}`);
}

/// Colours from cold to hot for the third number of a heat scatter.
export function heatColour(step, steps) {
  const at = steps <= 1 ? 0 : Math.round((step * 5) / (steps - 1));
  return colour(`heat-${at}`);
}

/// The button that switches between the two themes; the browser stores the choice if possible.
export function installThemeButton(changed) {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const recall = () => {
    try { return localStorage.getItem("fonio-theme"); } catch { return null; }
  };
  const remember = (theme) => {
    // Pages opened from a file may lack storage.
    try { localStorage.setItem("fonio-theme", theme); } catch { /* the choice lasts as long as the page */ }
  };
  const current = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const label = () => {
    const next = current() === "dark" ? "light" : "dark";
    button.setAttribute("aria-label", `Switch to the ${next} theme`);
    button.title = `Switch to the ${next} theme`;
  };
  const remembered = recall();
  if (remembered === "dark" || remembered === "light") root.dataset.theme = remembered;
  button.hidden = false;
  label();
  button.addEventListener("click", () => {
    root.dataset.theme = current() === "dark" ? "light" : "dark";
    remember(root.dataset.theme);
    label();
    changed();
  });
  dark.addEventListener("change", () => {
    label();
    changed();
  });
}
