// A filter box for rows and lanes by unit, process or file. All sections share its text.

/// The rows of a table that match all words: a word is part of a name or, with `*`, a pattern for it.
export function finder(text) {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const tests = words.map((word) => {
    if (!word.includes("*")) return (name) => name.includes(word);
    const parts = word.split("*").map((part) => part.replace(/[\\^$.|?+()[\]{}]/g, "\\$&"));
    const pattern = new RegExp(`(^|[\\s/(])${parts.join(".*")}($|[\\s/)])`, "s");
    return (name) => pattern.test(name);
  });
  return (names) => {
    const joined = names.map((name) => name.toLowerCase()).join("\n");
    return tests.every((test) => test(joined));
  };
}

/// A copy of a chart with the lanes whose name `passes` accepts.
export function withLanes(figure, passes) {
  const places = new Map();
  const names = figure.y.categories.filter((name, at) => passes(name) && places.set(at, places.size));
  const series = figure.series.map((one) => {
    const kept = [...one.y.keys()].filter((at) => places.has(one.y[at]));
    const pick = (values) => (values.length === 0 ? values : Float64Array.from(kept, (at) => values[at]));
    const y = Float64Array.from(kept, (at) => places.get(one.y[at]));
    return { ...one, x: pick(one.x), y, z: pick(one.z), low: pick(one.low), high: pick(one.high) };
  });
  return { ...figure, y: { ...figure.y, categories: names }, series };
}

/// Adds the box to each section whose tables have columns of names. `redraw` takes the charts that are to be drawn again,
/// with a test for their lanes; without one, all lanes are shown.
export function installFilters(redraw) {
  const boxes = [];
  for (const section of document.querySelectorAll("section.question")) {
    const tables = [...section.querySelectorAll("table.data")].filter((table) => whose(table).length > 0);
    if (tables.some((table) => table.tBodies[0].rows.length > 1)) boxes.push(box(section, tables));
  }
  const show = (text) => {
    for (const { field, apply } of boxes) {
      if (field.value !== text) field.value = text;
      apply(text);
    }
  };
  for (const { field } of boxes) {
    field.addEventListener("input", () => show(field.value));
    field.addEventListener("keydown", (event) => { if (event.key === "Escape") show(""); });
  }

  function box(section, tables) {
    const label = document.createElement("label");
    label.className = "filter";
    label.append("Show only ");
    const field = label.appendChild(document.createElement("input"));
    field.type = "search";
    field.placeholder = "unit, process or file";
    field.setAttribute("list", `names-${section.id}`);
    const list = label.appendChild(document.createElement("datalist"));
    list.id = `names-${section.id}`;
    const names = new Set(tables.flatMap((table) => [...table.tBodies[0].rows].flatMap((row) => named(table, row))));
    for (const name of [...names].sort()) list.appendChild(document.createElement("option")).value = name;
    const hidden = label.appendChild(document.createElement("span"));
    hidden.setAttribute("role", "status");
    (section.querySelector(".answer") ?? section.querySelector("h2")).after(label);

    const apply = (text) => {
      const passes = finder(text);
      const lanes = new Set();
      let [left, all] = [0, 0];
      for (const table of tables) {
        for (const row of table.tBodies[0].rows) {
          const names = named(table, row);
          row.hidden = !passes(names);
          all += 1;
          if (row.hidden) left += 1;
          else names.forEach((name) => lanes.add(name));
        }
        table.classList.toggle("filtered", text.trim() !== "");
      }
      hidden.textContent = left === 0 ? "" : `${left} of ${all} rows are hidden`;
      redraw(section, text.trim() === "" ? null : (name) => passes([name]) || lanes.has(name));
    };
    return { field, apply };
  }
}

/// The columns that name a row's owner.
function whose(table) {
  return [...table.tHead.rows[0].cells].filter((cell) => cell.dataset.whose !== undefined);
}

function named(table, row) {
  return whose(table).map((heading) => row.cells[heading.cellIndex].textContent).filter((name) => name !== "–");
}
