// The address after `#` is the whole state: #outcome=fail,crash&pair=qwen3-4b&sort=AUX-VALUE&cell=1a2b3c
const FIELDS = ["outcome", "change", "severity", "engine", "pair", "clause", "fault", "text", "sort", "show", "theme", "cell"];
const KEPT = ["sort", "show", "theme"];

function readState(hash = location.hash) {
  const given = new URLSearchParams(hash.slice(1));
  return Object.fromEntries(FIELDS.map((name) => [name, given.get(name) || ""]));
}

function hashOf(state) {
  const fields = new URLSearchParams();
  for (const name of FIELDS) if (state[name]) fields.set(name, state[name]);
  return "#" + fields;
}

// In place, where going back shouldn't go step by step.
function go(changes, { inPlace = false } = {}) {
  const target = hashOf({ ...readState(), ...changes });
  if (inPlace) location.replace(target);
  else if (target !== location.hash) location.hash = target;
}
