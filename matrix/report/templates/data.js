"use strict";
// The cells as the report's builder packed them: gzipped JSON in base64. Fields at their default are left out.
const DEFAULTS = {
  red: false, severity: "", change: "", before: "", detail: "", faults: [], expected: "", actual: "",
  tolerance: null, margin: null, seconds: null, acceptance: null, example: "", facts: [], planes: [],
  profile: null, known: [], start: null, history: [], repro: "", log: null,
};
const LETTERS = {
  pass: "P", fail: "F", xfail: "x", xpass: "X", warn: "W", skip: "s", error: "E", crash: "C", timeout: "T", oom: "O",
};
const WORST_FIRST = ["fail", "crash", "oom", "timeout", "error", "xpass", "warn", "xfail", "skip", "pass"];

async function unpack() {
  const packed = atob(document.getElementById("data").textContent);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  const unzipped = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = await new Response(unzipped).json();
  for (const cell of data.cells) Object.setPrototypeOf(cell, DEFAULTS);
  return data;
}

// What a text filter looks in, made once and only when one is used.
function wordsOf(cell) {
  cell.words ??= [
    cell.key, cell.verdict, cell.arch, cell.target, cell.draft, cell.detail,
    ...cell.faults.map((fault) => fault.label + " " + fault.evidence),
  ].join(" ").toLowerCase();
  return cell.words;
}
