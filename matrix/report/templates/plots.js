// Plots as inline SVG, built from elements: no text becomes markup.
const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function figure(caption, drawing) {
  const box = document.createElement("figure");
  const words = document.createElement("figcaption");
  words.textContent = caption;
  box.append(words, drawing);
  return box;
}

// A character for each layer: tenths of a decade above or below 1, which is `o`; a space is no number.
function distancesOf(levels) {
  return [...levels].map((level) => (level === " " ? null : 10 ** ((level.charCodeAt(0) - 111) / 10)));
}

// How far a plane is from every layer's output, on a logarithmic scale: a right plane has one low green bar.
function planePlot(plane, number) {
  const { asked, matched } = plane;
  const distances = distancesOf(plane.levels);
  const logs = distances.filter((d) => d !== null).map(Math.log10);
  const low = Math.floor(Math.min(...logs));
  const high = Math.max(Math.ceil(Math.max(...logs)), low + 1);
  const step = Math.max(8, Math.min(18, 460 / distances.length));
  const height = 110;
  const width = step * distances.length;
  const right = asked !== null && asked === matched;
  const role = (layer) =>
    layer === asked ? (right ? "right" : "asked") : layer === matched ? "matched" : "other";
  const y = (distance) =>
    distance === null ? 0 : height * (1 - (Math.log10(distance) - low) / (high - low));
  // Two marked layers side by side lean away from each other.
  const other = (layer) => (layer === asked ? matched : layer === matched ? asked : null);
  const anchor = (layer) => ({ 1: "end", [-1]: "start" }[other(layer) === null ? 0 : other(layer) - layer] || "middle");
  const parts = [];
  for (let power = low; power <= high; power += Math.max(1, Math.ceil((high - low) / 4))) {
    const at = y(10 ** power);
    parts.push(svg("line", { class: "rule", x1: 0, x2: width, y1: at, y2: at }));
    parts.push(svg("text", { x: -6, y: at + 3, "text-anchor": "end" }, "1e" + power));
  }
  const every = distances.length > 48 ? 8 : distances.length > 20 ? 4 : 1;
  distances.forEach((distance, layer) => {
    const top = Math.min(y(distance), height - 2);
    const kind = role(layer);
    const said = "layer " + layer + ": " + (distance === null ? "no number" : "about " + distance.toPrecision(2)) + (kind === "other" ? "" : " (" + kind + ")");
    parts.push(svg("rect", { class: kind, x: layer * step, y: top, width: step - 2, height: height - top }, svg("title", {}, said)));
    const near = [asked, matched].some((marked) => marked !== null && Math.abs(marked - layer) * step < 22);
    if (kind !== "other" || (layer % every === 0 && !near)) {
      parts.push(svg("text", { class: kind, x: layer * step + step / 2 - 1, y: height + 13, "text-anchor": anchor(layer) }, String(layer)));
    }
  });
  const layer = (which, distance) =>
    which === null ? "no layer" : "layer " + which + (distance === null ? "" : " (" + distance + ")");
  const title = "plane " + number + ": " + (right ? layer(asked, plane.to_asked) + ", as asked"
    : "asked for " + layer(asked, plane.to_asked) + ", matches " + layer(matched, plane.to_matched));
  const drawing = svg("svg", {
    class: "plot", role: "img", "aria-label": title + "; distance to every layer, logarithmic",
    width: width + 52, height: height + 24, viewBox: "-48 -6 " + (width + 52) + " " + (height + 24),
  }, ...parts);
  return figure(title, drawing);
}

// One family of prompts: the share of steps in which each drafted position was accepted, and the two words of
// the code book that matter: the one that was decoded, and the one of a healthy engine.
function familyPlot(family, index, profile) {
  const height = 110;
  const step = 34;
  const width = step * Math.max(family.rates.length, 1);
  const y = (rate) => height * (1 - rate);
  const parts = [];
  for (const rate of [0, 0.5, 1]) {
    parts.push(svg("line", { class: "rule", x1: 0, x2: width, y1: y(rate), y2: y(rate) }));
    parts.push(svg("text", { x: -6, y: y(rate) + 3, "text-anchor": "end" }, rate * 100 + "%"));
  }
  family.rates.forEach((rate, position) => {
    const top = Math.min(y(rate), height - 1);
    const said = "draft " + (position + 1) + ": accepted in " + (rate * 100).toFixed(1) + "% of steps";
    parts.push(svg("rect", { class: "rate", x: position * step + 3, y: top, width: step - 6, height: height - top }, svg("title", {}, said)));
    parts.push(svg("text", { x: position * step + step / 2, y: height + 13, "text-anchor": "middle" }, String(position + 1)));
  });
  for (const entry of profile.book) {
    if (!entry.decoded && entry.name !== "correct") continue;
    const edge = (entry.word[index] || 0) * step;
    const path = "M0 " + y(1) + "H" + edge + "V" + y(0) + "H" + width;
    parts.push(svg("path", { class: entry.decoded ? "word decoded" : "word", d: path }, svg("title", {}, entry.name)));
  }
  const title = "family " + family.name + ": accepted at each draft position, " + plural(family.steps, "step");
  const drawing = svg("svg", {
    class: "plot", role: "img", "aria-label": title,
    width: width + 60, height: height + 24, viewBox: "-52 -6 " + (width + 60) + " " + (height + 24),
  }, ...parts);
  return figure(title, drawing);
}
