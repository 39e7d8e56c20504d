// The grids: letters are links in the page, cells their data.
function makeGrid(cells) {
  const byId = new Map(cells.map((cell) => [cell.id, cell]));
  const tables = [...document.querySelectorAll(".engine")].map((section) => readTable(section, byId));
  let order = cells; // the cells that the filters show, in the order of the grids
  let sorted = "";

  function apply(state) {
    const matches = matcher(state);
    order = [];
    for (const table of tables) filterTable(table, matches, order);
    if (state.sort !== sorted) {
      for (const table of tables) sortTable(table, state.sort);
      sorted = state.sort;
    }
    document.getElementById("grids").dataset.show = state.show;
    if (state.show) for (const cell of order) cell.link.dataset.metric = metricOf(cell, state.show);
    const total = cells.length;
    document.getElementById("shown").textContent =
      order.length === total ? plural(total, "cell") : order.length + " of " + plural(total, "cell");
  }

  return { apply, cell: (id) => byId.get(id), shown: () => order };
}

function plural(count, word) {
  return count + " " + word + (count === 1 ? "" : "s");
}

function readTable(section, byId) {
  const rows = [...section.querySelectorAll("tbody tr")].map((row) => {
    const places = [...row.cells].slice(1).map((place) => [...place.children].map((link) => {
      const cell = byId.get(link.getAttribute("href").slice("#cell=".length));
      cell.link = link;
      link.tabIndex = -1;
      link.setAttribute("aria-label", cell.clause + ": " + cell.verdict);
      return cell;
    }));
    return { row, places };
  });
  const first = section.querySelector("tbody a");
  if (first) first.tabIndex = 0;
  const heads = [...section.querySelectorAll("th.clause")];
  return { section, rows, heads, families: readFamilies(section), hidden: new Set() };
}

function readFamilies(section) {
  let at = 0;
  return [...section.querySelectorAll("th.family")].map((head) => {
    const from = at;
    at += head.colSpan;
    return { head, from, to: at };
  });
}

function matcher(state) {
  const outcomes = new Set(state.outcome.split(",").filter(Boolean));
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  const exact = ["change", "severity", "engine", "pair", "clause"].filter((name) => state[name]);
  return (cell) =>
    (!outcomes.size || outcomes.has(cell.outcome)) &&
    exact.every((name) => cell[name] === state[name]) &&
    (!state.fault || faultsOf(cell).includes(state.fault)) &&
    words.every((word) => wordsOf(cell).includes(word));
}

// A red cell without a label stands under its outcome, as in the table of faults.
function faultsOf(cell) {
  if (cell.faults.length) return cell.faults.map((fault) => fault.label);
  return cell.outcome === "pass" || cell.outcome === "skip" ? [] : [cell.outcome];
}

function filterTable(table, matches, order) {
  const used = new Set();
  let visible = 0;
  for (const { row, places } of table.rows) {
    let any = false;
    places.forEach((place, column) => {
      for (const cell of place) {
        const match = matches(cell);
        if (cell.dim === match) cell.link.classList.toggle("dim", !match);
        else if (cell.dim === undefined && !match) cell.link.classList.add("dim");
        cell.dim = !match;
        if (!match) continue;
        any = true;
        used.add(column);
        order.push(cell);
      }
    });
    row.hidden = !any;
    visible += any;
  }
  table.section.hidden = !visible;
  if (visible) hideColumns(table, new Set([...table.heads.keys()].filter((column) => !used.has(column))));
}

function hideColumns(table, hidden) {
  const changed = [...table.heads.keys()].filter((column) => hidden.has(column) !== table.hidden.has(column));
  for (const column of changed) {
    table.heads[column].hidden = hidden.has(column);
    for (const { row } of table.rows) row.cells[column + 1].hidden = hidden.has(column);
  }
  table.hidden = hidden;
  for (const { head, from, to } of table.families) {
    let shown = 0;
    for (let column = from; column < to; column++) shown += !hidden.has(column);
    head.hidden = !shown;
    if (shown) head.colSpan = shown;
  }
}

// `pair`: by name; a clause: worst outcome first; a minus in front turns it round; empty: as in the journals.
function sortTable(table, sort) {
  const down = sort.startsWith("-");
  const name = down ? sort.slice(1) : sort;
  const column = table.heads.findIndex((head) => head.textContent === name);
  const key = name === "pair"
    ? ({ row }) => row.cells[0].textContent
    : ({ places }) => Math.min(99, ...(places[column] || []).map((cell) => WORST_FIRST.indexOf(cell.outcome)));
  const rows = [...table.rows];
  if (name === "pair" || column >= 0) {
    rows.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (down ? -1 : 1));
  }
  rows[0]?.row.parentNode.append(...rows.map(({ row }) => row));
  for (const button of table.section.querySelectorAll("[data-sort]")) {
    const head = button.closest("th");
    if (button.dataset.sort === name) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

function metricOf(cell, name) {
  const value = cell[name];
  if (value === null) return "";
  if (name === "seconds") return value < 10 ? value.toFixed(1) : value.toFixed(0);
  return name === "acceptance" ? Math.round(value * 100) + "%" : Number(value).toPrecision(2).replace("e+", "e");
}

// From letter to letter; only one letter of a table is a stop of the tab key.
function moveInGrid(link, key) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  if (!steps[key]) return false;
  const [down, right] = steps[key];
  const body = link.closest("tbody");
  const rows = [...body.rows].filter((row) => !row.hidden);
  let y = rows.indexOf(link.closest("tr"));
  let x = link.closest("td").cellIndex;
  for (;;) {
    y += down;
    x += right;
    const place = rows[y]?.cells[x];
    if (!place || x < 1) return true;
    const next = place.hidden ? null : place.querySelector("a");
    if (!next) continue;
    for (const stop of body.querySelectorAll('a[tabindex="0"]')) stop.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
    return true;
  }
}
