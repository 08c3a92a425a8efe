// Tables: a click on a heading sorts them, and rows after the first ones are folded.

const FOLD = 10;

export function installTables() {
  for (const table of document.querySelectorAll("table.data")) {
    fold(table);
    for (const heading of table.tHead.rows[0].cells) makeSortable(table, heading);
  }
}

function fold(table) {
  const body = table.tBodies[0];
  if (body.rows.length <= FOLD + 2) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "fold";
  const show = (folded) => {
    table.classList.toggle("folded", folded);
    button.textContent = folded ? `Show all ${body.rows.length} rows` : "Show fewer rows";
    button.setAttribute("aria-expanded", String(!folded));
  };
  show(true);
  button.addEventListener("click", () => show(!table.classList.contains("folded")));
  table.closest(".scroll").after(button);
}

function makeSortable(table, heading) {
  const body = table.tBodies[0];
  if (body.rows.length < 2) return;
  const button = document.createElement("button");
  button.type = "button";
  button.append(...heading.childNodes);
  heading.append(button);
  button.addEventListener("click", () => {
    const column = heading.cellIndex;
    const numeric = heading.classList.contains("num");
    // Most readers want the largest numbers first.
    const before = heading.getAttribute("aria-sort");
    const descending = before ? before === "ascending" : numeric;
    for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const keyed = Array.from(body.rows, (row) => {
      const cell = row.cells[column];
      return [row, numeric ? (cell.dataset.v === undefined ? NaN : Number(cell.dataset.v)) : cell.textContent];
    });
    keyed.sort(([, a], [, b]) => {
      // Unknown values are last in both directions.
      if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
      const order = numeric ? a - b : a.localeCompare(b, "en", { numeric: true });
      return descending ? -order : order;
    });
    body.append(...keyed.map(([row]) => row));
  });
}
