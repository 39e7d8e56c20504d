// A cell's own page, built from elements: no text becomes markup.
function el(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

// The builder lets only such addresses through; this is the second lock on the same door.
function linkTo(address, text) {
  if (!/^(https?:\/\/|\.\/)/.test(address)) return document.createTextNode(text);
  return el("a", { href: address, rel: "noopener noreferrer" }, text);
}

function definitions(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== "");
  return shown.length ? el("dl", {}, ...shown.flatMap(([name, value]) => [
    el("dt", {}, name),
    el("dd", {}, value instanceof Node ? value : String(value)),
  ])) : "";
}

function badge(outcome, text = LETTERS[outcome]) {
  return el("b", { className: "o " + outcome }, text);
}

function part(title, ...children) {
  const kept = children.filter((child) => child !== "" && child !== null);
  return kept.length ? el("section", {}, el("h3", {}, title), ...kept) : "";
}

function cellPage(cell, sentence, neighbours) {
  const { place, count, before, after } = neighbours;
  const step = (to, text, label) =>
    to ? el("a", { className: "step", href: "#cell=" + to.id, "aria-label": label }, text) : "";
  return [
    el("nav", { "aria-label": "Cells" },
      el("a", { className: "back", href: "#cell=" }, "\u2190 back to the grid"),
      el("span", { className: "quiet" }, place ? place + " of " + count + " shown" : ""),
      step(before, "\u2039 previous", "previous cell"), step(after, "next \u203a", "next cell")),
    el("h2", { id: "cell-title", tabIndex: -1 }, badge(cell.outcome), " ", el("span", {}, cell.pair + " / " + cell.clause)),
    el("p", { className: "how" }, el("b", {}, cell.verdict),
      cell.red ? el("span", { className: "tag bad" }, "unexpected") : "",
      cell.change ? el("span", { className: "tag" }, cell.change + (cell.before ? ", was " + cell.before : "")) : "",
      el("span", { className: "quiet" }, cell.engine + " [" + cell.settings + "]")),
    sentence ? el("p", { className: "sentence" }, el("span", { className: "quiet" }, "Must hold: "), sentence) : "",
    ...cell.faults.map(faultBox),
    cell.detail && !cell.faults.some((fault) => fault.evidence === cell.detail) ? el("pre", {}, cell.detail) : "",
    cell.known.length ? part("Expected, by", el("ul", {}, ...cell.known.map((known) =>
      el("li", {}, known.link ? linkTo(known.link, known.text) : known.text)))) : "",
    cell.repro ? part("Reproduce", el("div", { className: "repro" }, el("code", {}, cell.repro),
      el("button", { type: "button", className: "copy" }, "Copy"))) : "",
    part("Expected and actual", definitions([
      ["expected", cell.expected], ["actual", cell.actual], ["tolerance", cell.tolerance],
      ["margin", cell.margin === null ? null : Number(cell.margin).toPrecision(4) + " (tolerance / measured: below 1 is outside)"],
      ["example", cell.example]])),
    cell.profile ? profilePart(cell.profile) : "",
    part("Distance to every layer", ...planeList(cell.planes)),
    history(cell),
    part("Measured", definitions([...cell.facts,
      ["clause took", cell.seconds === null ? null : cell.seconds + " s"],
      ["engine start", cell.start && cell.start[0] + " s, " + cell.start[1] + " MB resident"]])),
    part("What was judged", definitions([["target", cell.target], ["draft", cell.draft], ["architecture", cell.arch],
      ["dtype", cell.dtype], ["cell", cell.key]])),
    cell.log ? part("Log", logPart(cell.log)) : "",
  ].filter((piece) => piece !== "");
}

function faultBox(fault) {
  return el("div", { className: "fault " + fault.severity },
    el("b", {}, fault.label), el("span", { className: "tag" }, fault.severity),
    fault.phase !== "all" ? el("span", { className: "tag" }, fault.phase) : "",
    fault.evidence ? el("p", {}, fault.evidence) : "",
    fault.example ? el("p", {}, "shrunk example ", el("code", {}, fault.example)) : "");
}

// The planes that aren't what was asked for come first, and are all drawn; of the others a few.
function planeList(planes) {
  const drawn = planes.map((plane, number) => ({ plane, number, wrong: plane.asked !== plane.matched }));
  const plots = drawn.filter((one) => one.wrong).concat(drawn.filter((one) => !one.wrong))
    .map(({ plane, number }) => planePlot(plane, number));
  if (!plots.length) return [];
  const legend = el("p", { className: "quiet legend" }, el("i", { className: "right" }), "asked for and matched ",
    el("i", { className: "asked" }), "asked for ", el("i", { className: "matched" }), "matched instead");
  if (plots.length <= 6) return [legend, el("div", { className: "plots" }, ...plots)];
  return [legend, el("div", { className: "plots" }, ...plots.slice(0, 6)),
    el("details", {}, el("summary", {}, plots.length - 6 + " more planes"), el("div", { className: "plots" }, ...plots.slice(6)))];
}

const VERDICTS = {
  correct: ": no fault of the code book is seen",
  not: ": not a healthy engine's; a mean tells no more",
  unknown: ": no word of the code book fits",
  __proto__: null,
};

function profilePart(profile) {
  const heads = ["word", ...profile.families.map((family) => "family " + family.name)];
  const rows = profile.book.map((entry) => el("tr", { className: entry.decoded ? "decoded" : "" },
    el("th", { scope: "row" }, entry.name, entry.decoded ? el("span", { className: "tag" }, "decoded") : ""),
    ...entry.word.map((accepted, index) => el("td", {}, pips(accepted, profile.families[index]?.rates.length || 0)))));
  const steps = profile.families.filter((family) => family.counts.length).map((family) =>
    el("p", { className: "quiet" }, "family " + family.name + ": " +
      family.counts.map(([accepted, count]) => accepted + " accepted in " + plural(count, "step")).join(", ")));
  return part("Acceptance profile against the code book",
    el("p", {}, "Verdict: ", el("b", {}, profile.verdict), VERDICTS[profile.verdict] || ""),
    el("div", { className: "plots" }, ...profile.families.map((family, index) => familyPlot(family, index, profile))),
    el("p", { className: "quiet legend" }, el("i", { className: "rate" }), "measured ", el("i", { className: "line decoded" }), "decoded word ",
      el("i", { className: "line" }), "a healthy engine"),
    ...steps,
    el("div", { className: "scroll" }, el("table", { className: "book" },
      el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, ...rows))));
}

// How many of a step's drafts a word accepts: filled squares of all.
function pips(accepted, of) {
  const row = el("span", { className: "pips", title: accepted + " of " + of });
  for (let i = 0; i < Math.max(of, accepted); i++) row.append(el("i", { className: i < accepted ? "on" : "" }));
  row.append(" " + accepted);
  return row;
}

function history(cell) {
  if (!cell.history.length) return "";
  const dots = cell.history.map((dot) =>
    el("li", {}, el("b", { className: "o " + dot.outcome, title: dot.time + ", " + dot.version + ": " + dot.verdict }, LETTERS[dot.outcome]),
      el("span", { className: "quiet" }, dot.time.slice(5, 16).replace("T", " "))));
  return part("History, oldest run first", el("ol", { className: "dots" }, ...dots));
}

function logPart(log) {
  const whole = el("p", {}, linkTo(log.href, "whole log"), log.left_out ? "; the report holds no more of it" : "");
  if (!log.text) return el("div", {}, whole);
  return el("div", {}, whole, el("pre", { className: "log", tabIndex: 0, role: "region", "aria-label": "log" }, log.text));
}
