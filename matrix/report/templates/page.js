// Wires the page: the address says what is seen, and everything that is done changes the address.
const overview = document.getElementById("overview");
const page = document.getElementById("cell");
const input = document.getElementById("text");
const buttons = [...document.querySelectorAll("[data-outcome]")].filter((element) => element.tagName === "BUTTON");
const selects = [...document.querySelectorAll("select[data-field]")];
const THEMES = ["", "dark", "light"];
let grid = null;
let sentences = {};
let open = ""; // id of the cell whose page is seen
let scrolled = 0;

function fillSelects(cells) {
  const values = {
    change: ["broken", "gone", "unstable", "fixed", "new"].filter((name) => cells.some((cell) => cell.change === name)),
    severity: ["dies", "wrong", "guard"].filter((name) => cells.some((cell) => cell.severity === name)),
    engine: [...new Set(cells.map((cell) => cell.engine))],
    pair: [...new Set(cells.map((cell) => cell.pair))],
    clause: [...new Set(cells.map((cell) => cell.clause))],
    fault: [...new Set(cells.flatMap(faultsOf))].sort(),
  };
  for (const select of selects) {
    const options = values[select.dataset.field];
    if (!options) continue;
    select.append(...options.map((value) => el("option", { value }, value)));
    select.closest("label").hidden = !options.length;
  }
}

function render() {
  const state = readState();
  setTheme(state.theme);
  if (!grid) return;
  for (const button of buttons) {
    button.setAttribute("aria-pressed", String(state.outcome.split(",").includes(button.dataset.outcome)));
  }
  for (const select of selects) select.value = state[select.dataset.field];
  if (input.value !== state.text) input.value = state.text;
  grid.apply(state);
  const cell = grid.cell(state.cell);
  if (cell) showCell(cell);
  else showOverview();
}

function setTheme(theme) {
  const known = THEMES.includes(theme) ? theme : "";
  document.documentElement.dataset.theme = known;
  document.getElementById("theme").setAttribute("aria-label", "Colours: " + (known || "as the system"));
}

function showCell(cell) {
  if (!open) scrolled = scrollY;
  open = cell.id;
  const shown = grid.shown();
  const at = shown.indexOf(cell);
  const neighbours = { place: at + 1, count: shown.length, before: shown[at - 1], after: at < 0 ? undefined : shown[at + 1] };
  page.replaceChildren(...cellPage(cell, sentences[cell.clause] || "", neighbours));
  overview.hidden = true;
  page.hidden = false;
  scrollTo(0, 0);
  page.querySelector(".log")?.scrollTo(0, 1e9);
  document.getElementById("cell-title").focus({ preventScroll: true });
}

function showOverview() {
  if (!open) return;
  const link = grid.cell(open)?.link;
  open = "";
  page.hidden = true;
  page.replaceChildren();
  overview.hidden = false;
  scrollTo(0, scrolled);
  link?.focus({ preventScroll: true });
}

async function copy(button) {
  const text = button.previousElementSibling.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

function onClick(event) {
  const { target } = event;
  const button = target.closest("button");
  const link = target.closest('a[href^="#"]');
  if (button?.dataset.outcome) {
    const outcomes = new Set(readState().outcome.split(",").filter(Boolean));
    if (!outcomes.delete(button.dataset.outcome)) outcomes.add(button.dataset.outcome);
    go({ outcome: [...outcomes].join(",") });
  } else if (button?.dataset.sort) {
    const { sort } = readState();
    const name = button.dataset.sort;
    go({ sort: sort === name ? "-" + name : sort === "-" + name ? "" : name });
  } else if (button?.id === "theme") {
    go({ theme: THEMES[(THEMES.indexOf(readState().theme) + 1) % THEMES.length] }, { inPlace: true });
  } else if (button?.id === "reset") {
    const state = readState();
    go(Object.fromEntries(FIELDS.map((name) => [name, KEPT.includes(name) ? state[name] : ""])));
  } else if (button?.classList.contains("copy")) {
    copy(button);
  } else if (link) {
    event.preventDefault();
    follow(link);
  }
}

// Links name one field; the others stay as they are. A fault or a change shows its cells and no others.
function follow(link) {
  const [name, value] = [...new URLSearchParams(link.getAttribute("href").slice(1))][0] || ["cell", ""];
  if (name === "cell") return go({ cell: value });
  const others = { outcome: "", change: "", severity: "", engine: "", pair: "", clause: "", fault: "", text: "", cell: "" };
  go({ ...others, [name]: value });
  document.getElementById("grids").scrollIntoView();
}

function onKey(event) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "Escape" && event.target === input) go({ text: "" }, { inPlace: true });
  else if (event.key === "Escape" && open) go({ cell: "" });
  else if (typing) return;
  else if (event.key === "/" && !open) {
    event.preventDefault();
    input?.focus();
  } else if (open && (event.key === "n" || event.key === "p")) {
    const label = event.key === "n" ? "next cell" : "previous cell";
    page.querySelector('a[aria-label="' + label + '"]')?.click();
  } else if (event.target.matches(".grid tbody a") && moveInGrid(event.target, event.key)) event.preventDefault();
}

function wire() {
  document.addEventListener("click", onClick);
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", render);
  if (!input) return; // no cells, no grid
  for (const select of selects) {
    select.addEventListener("change", () => go({ [select.dataset.field]: select.value }));
  }
  input.addEventListener("input", () => go({ text: input.value }, { inPlace: true }));
  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
}

async function start() {
  setTheme(readState().theme);
  const { cells, sentences: said } = await unpack();
  sentences = said;
  if (cells.length) {
    fillSelects(cells);
    grid = makeGrid(cells);
  }
  wire();
  render();
  document.documentElement.dataset.ready = "true";
}

start();
