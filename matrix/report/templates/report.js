"use strict";
// The hash is the whole state: #outcome=fail,crash&text=qwen&cell=1a2b3c
const buttons = [...document.querySelectorAll("#filters button")];
const input = document.getElementById("text");
const shown = document.getElementById("shown");
const cells = [...document.querySelectorAll(".cell")].map((element) => ({
  element,
  outcome: element.dataset.outcome,
  text: element.querySelector("summary").textContent.toLowerCase(),
  links: [],
}));
const byId = new Map(cells.map((cell) => [cell.element.id, cell]));
const rows = [...document.querySelectorAll(".grid tbody tr")];
for (const link of document.querySelectorAll(".grid a")) {
  byId.get(link.getAttribute("href").slice(1)).links.push(link);
}

function read() {
  const fields = new URLSearchParams(location.hash.slice(1));
  return {
    outcomes: new Set((fields.get("outcome") || "").split(",").filter(Boolean)),
    text: fields.get("text") || "",
    cell: fields.get("cell") || "",
  };
}

function hash(state) {
  const fields = new URLSearchParams();
  if (state.outcomes.size) fields.set("outcome", [...state.outcomes].join(","));
  if (state.text) fields.set("text", state.text);
  if (state.cell) fields.set("cell", state.cell);
  return "#" + fields.toString();
}

function filter(state) {
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const cell of cells) {
    const match =
      (!state.outcomes.size || state.outcomes.has(cell.outcome)) &&
      words.every((word) => cell.text.includes(word));
    count += match;
    cell.element.hidden = !match && cell.element.id !== "cell=" + state.cell;
    for (const link of cell.links) link.classList.toggle("dim", !match);
  }
  for (const row of rows) {
    const links = [...row.querySelectorAll("a")];
    row.hidden = links.length > 0 && links.every((link) => link.classList.contains("dim"));
  }
  shown.textContent = count === cells.length ? count + " cells" : count + " of " + cells.length + " cells";
}

function render() {
  const state = read();
  for (const button of buttons) {
    button.setAttribute("aria-pressed", String(state.outcomes.has(button.dataset.outcome)));
  }
  if (input.value !== state.text) input.value = state.text;
  filter(state);
  for (const cell of cells) cell.element.classList.remove("at");
  const cell = byId.get("cell=" + state.cell);
  if (!cell) return;
  cell.element.classList.add("at");
  cell.element.open = true;
  cell.element.scrollIntoView({ block: "start" });
}

for (const button of buttons) {
  button.addEventListener("click", () => {
    const state = read();
    const { outcome } = button.dataset;
    if (!state.outcomes.delete(outcome)) state.outcomes.add(outcome);
    location.hash = hash({ ...state, cell: "" });
  });
}
input.addEventListener("input", () => {
  // In place, so that going back doesn't go letter by letter.
  location.replace(hash({ ...read(), text: input.value, cell: "" }));
});
document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#cell="]');
  if (!link) return;
  event.preventDefault();
  const target = hash({ ...read(), cell: link.getAttribute("href").slice("#cell=".length) });
  if (target === location.hash) render();
  else location.hash = target;
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== input) {
    event.preventDefault();
    input.focus();
  }
  if (event.key === "Escape" && event.target === input) {
    location.replace(hash({ ...read(), text: "" }));
  }
});
window.addEventListener("hashchange", render);
if (location.hash.length > 1) render();
