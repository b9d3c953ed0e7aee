"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const SIDES = ["source", "target"];
const FONT = "system-ui, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', Arial, sans-serif";
const LONGEST_LABEL = 32;
const SMALLEST_FONT = 9.5; // in pixels, below which the picture is not made to fit the window
const SMALLEST_CELL = 18; // in pixels, in which there is room for a weight in figures
const RIGHT_TO_LEFT = /[\p{sc=Hebrew}\p{sc=Arabic}\p{sc=Syriac}\p{sc=Thaana}\p{sc=Nko}]/u;

let visible = []; // the sentences that the list shows, as indices into data.sentences, in its order
let chosen = -1; // the index of the sentence that is shown; -1 until there is one
let sentence, weights; // that sentence, and its weights as weights[target][source]
let hard = false, threshold = 0; // what the controls say
let active = null; // what is pointed at or has the focus: {target}, {source}, or both for a cell
let picture; // where things lie in the heatmap; null where there is nothing to draw
let cursor = { target: 0, source: 0 }; // the cell from which arrow keys move in the matrix

// --- weights ------------------------------------------------------------------------------------

/** Read two bytes for each weight, the lower byte first, as page.py has written them. */
function decode({ weights, source, target }) {
  const bytes = atob(weights);
  let next = 0;
  return target.map(() => Float64Array.from(source, () => {
    const steps = bytes.charCodeAt(next++) | (bytes.charCodeAt(next++) << 8);
    return steps === data.nan ? NaN : steps / data.steps;
  }));
}

/** The rule of shades.py: 0..1 is cut into data.greys equal parts, 0 is black; NaN stays NaN. */
const grey = (weight) => Math.min(data.greys - 1, Math.floor(data.greys * weight));

/** Return how strongly a cell is drawn: its weight, 1 for a hard link, 0 where it is hidden. */
function shade(target, source) {
  const weight = weights[target][source];
  if (weight < threshold) return 0;
  return hard ? Number(sentence.links[target] === source) : weight;
}

/** Return the links that are not hidden as "0-0 1-2 ...", with the source first. */
function pharaoh() {
  return sentence.links
    .map((source, target) => (weights[target][source] < threshold ? "" : `${source}-${target}`))
    .filter(Boolean).join(" ");
}

const three = (weight) => (Number.isNaN(weight) ? "NaN" : weight.toFixed(3));
const two = (weight) => (Number.isNaN(weight) ? "NaN" : weight.toFixed(2).replace(/^0/, ""));

/** Return the words of the other side that share a cell with the active word and are shown. */
function partners() {
  if (!active) return [];
  const byTarget = active.target !== undefined;
  return sentence[byTarget ? "source" : "target"].map((_, index) => {
    const [row, column] = byTarget ? [active.target, index] : [index, active.source];
    return { index, row, column, weight: weights[row][column], shade: shade(row, column) };
  }).filter((partner) => partner.shade !== 0);
}

// --- the heatmap: one text, for the screen and for files -----------------------------------------

/** Make a word safe to stand in the text of an SVG, and valid XML. */
function escaped(text) {
  return text
    .replace(/[\p{Surrogate}\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/gu, "\ufffd")
    .replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Shorten a long word in the middle, and put it on one line. */
function label(word) {
  const letters = Array.from(word.split(/\s+/).join(" ").trim());
  const half = (LONGEST_LABEL - 1) >> 1;
  const text = letters.length <= LONGEST_LABEL ? letters.join("")
    : `${letters.slice(0, half).join("")}…${letters.slice(-half).join("")}`;
  // Isolated, so that a full stop stands on the side where the word ends.
  return RIGHT_TO_LEFT.test(text) ? `\u2068${text}\u2069` : text;
}

const ruler = document.createElement("canvas").getContext("2d");

/**
 * Draw source words on top, target words on the left, 0 black and 1 white (the paper's Figure 3).
 *
 * Returns the text of an SVG, and where in it things lie. Without `paper` it has no background.
 */
function draw(ink, paper) {
  const [columns, rows] = SIDES.map((side) => sentence[side].map(label));
  const cell = Math.round(Math.min(24, Math.max(15, 800 / Math.max(rows.length, columns.length))));
  const font = Math.min(13, cell / 1.4), gap = 5, margin = 4;
  ruler.font = `bold ${font}px ${FONT}`; // as wide as the active label
  const longest = (words) => Math.max(...words.map((word) => ruler.measureText(word).width));
  const left = Math.ceil(longest(rows)) + gap + margin;
  const top = Math.ceil(longest(columns)) + gap + margin;
  const wide = columns.length * cell, high = rows.length * cell;
  const width = left + wide + margin, height = top + high + margin;

  const squares = new Map(); // the squares of each grey become one path
  weights.forEach((row, i) => row.forEach((_, j) => {
    const tone = grey(shade(i, j));
    if (tone === 0) return; // the ground is black
    const fill = Number.isNaN(tone) ? "#f00" : `rgb(${tone},${tone},${tone})`;
    squares.set(fill, `${squares.get(fill) ?? ""}M${j} ${i}h1v1h-1z`);
  }));
  const paths = Array.from(squares, ([fill, d]) => `<path fill="${fill}" d="${d}"/>`);
  const onTop = columns.map((word, j) => {
    const place = `translate(${left + (j + 0.5) * cell},${top - gap}) rotate(-90)`;
    return `<text class="label" transform="${place}" dy=".35em">${escaped(word)}</text>`;
  });
  const onLeft = rows.map((word, i) => {
    const place = `x="${left - gap}" y="${top + (i + 0.5) * cell}" text-anchor="end"`;
    return `<text class="label" ${place} dy=".35em">${escaped(word)}</text>`;
  });
  const box = (x, y, width, height, style) =>
    `<rect x="${x}" y="${y}" width="${width}" height="${height}" ${style}/>`;
  const text = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"`,
    ` viewBox="0 0 ${width} ${height}" font-family="${FONT}" font-size="${font.toFixed(1)}"`,
    ` fill="${ink}">`,
    paper ? box(0, 0, width, height, `fill="${paper}"`) : "",
    box(left, top, wide, high, 'fill="#000"'),
    `<g transform="translate(${left},${top}) scale(${cell})" shape-rendering="crispEdges">`,
    ...paths, "</g>",
    box(left, top, wide, high, `fill="none" stroke="${ink}" stroke-width=".5"`),
    ...onTop, ...onLeft, "</svg>",
  ].join("");
  return { text, width, height, left, top, cell, font };
}

/** Draw the chosen sentence anew, as the controls ask for it. */
function showMatrix() {
  const box = at("matrix");
  const empty = !sentence.source.length || !sentence.target.length;
  for (const id of ["png", "svg"]) at(id).disabled = empty;
  const [columns, rows] = SIDES.map((side) => sentence[side].length);
  box.setAttribute("aria-label", empty ? "nothing to draw"
    : `${rows} target words by ${columns} source words; arrow keys move from cell to cell`);
  picture = null;
  if (empty) {
    box.textContent = "One of the two sentences has no words: there is nothing to draw.";
  } else {
    picture = draw("currentColor");
    box.innerHTML = picture.text; // every word in it went through escaped()
    const svg = box.firstChild;
    svg.setAttribute("aria-hidden", "true");
    svg.style.maxWidth = `${picture.width}px`;
    svg.style.minWidth = `${Math.round((picture.width * SMALLEST_FONT) / picture.font)}px`;
    svg.querySelectorAll("text").forEach((text, n) => {
      const onTop = n < sentence.source.length;
      text.dataset.side = onTop ? "source" : "target";
      text.dataset.index = onTop ? n : n - sentence.source.length;
    });
    svg.append(element("g", { id: "overlay" }));
  }
  at("pharaoh").textContent = pharaoh();
  at("copy").disabled = !pharaoh();
  highlight();
}

function element(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

// --- the active word or cell ---------------------------------------------------------------------

function activate(next) {
  active = next;
  highlight();
}

/** Mark the active word and its partners in both sentences and in the matrix, and say them. */
function highlight() {
  const found = partners();
  const other = !active ? null : active.target !== undefined ? "source" : "target";
  const own = SIDES.find((side) => side !== other);
  for (const marked of document.querySelectorAll(".active, [data-weight], [data-shade]")) {
    marked.classList.remove("active");
    delete marked.dataset.weight;
    marked.removeAttribute("style");
  }
  at("overlay")?.replaceChildren();
  at("readout").textContent = "";
  if (!active) return;

  const isActive = (side, index) => side === own && index === active[own];
  for (const side of SIDES) {
    for (const marked of document.querySelectorAll(`[data-side="${side}"]`)) {
      const index = Number(marked.dataset.index);
      if (isActive(side, index)) marked.classList.add("active");
      if (side !== other) continue;
      const partner = found.find((one) => one.index === index);
      if (marked.classList.contains("label")) {
        marked.dataset.shade = partner?.shade ?? 0;
        marked.style.opacity = 0.35 + 0.65 * (partner?.shade || 0);
      } else if (partner && (partner.weight >= 0.005 || hard || Number.isNaN(partner.weight))) {
        marked.dataset.weight = three(partner.weight);
        marked.dataset.short = two(partner.weight);
        marked.style.setProperty("--weight", partner.shade || 0);
      }
    }
  }
  if (picture) overlay(found, other === "source");
  at("readout").textContent = spoken(found, own, other);
}

/** Veil all but the active row or column, frame it, and write its weights into it. */
function overlay(found, isRow) {
  const { left, top, cell } = picture, layer = at("overlay");
  const wide = sentence.source.length * cell, high = sentence.target.length * cell;
  const box = (kind, x, y, width, height) =>
    layer.append(element("rect", { class: kind, x, y, width, height }));
  const start = cell * (isRow ? active.target : active.source);
  if (isRow) {
    box("veil", left, top, wide, start);
    box("veil", left, top + start + cell, wide, high - start - cell);
    box("frame", left, top + start, wide, cell);
  } else {
    box("veil", left, top, start, high);
    box("veil", left + start + cell, top, wide - start - cell, high);
    box("frame", left + start, top, cell, high);
  }
  for (const { row, column, weight, shade: drawn } of found) {
    if (weight < 0.005 || cell < SMALLEST_CELL) continue;
    layer.append(element("text", {
      x: left + (column + 0.5) * cell, y: top + (row + 0.5) * cell, dy: ".35em",
      "text-anchor": "middle", "font-size": (cell * 0.44).toFixed(1),
      fill: drawn > 0.5 ? "#000" : "#fff", "data-weight": three(weight),
      "data-row": row, "data-column": column,
    }, two(weight)));
  }
  if (active.source !== undefined && active.target !== undefined) {
    box("cell", left + active.source * cell, top + active.target * cell, cell, cell);
  }
}

/** Say the active word and its best partners in one line. */
function spoken(found, own, other) {
  if (active.source !== undefined && active.target !== undefined) return cellText(active);
  const best = found.filter(({ weight }) => !(weight < 0.005))
    .sort((a, b) => b.weight - a.weight);
  const list = best.slice(0, 6)
    .map(({ index, weight }) => isolated(`${sentence[other][index]} ${three(weight)}`));
  const others = best.length > 6 ? ` and ${best.length - 6} more` : "";
  const word = isolated(sentence[own][active[own]]), arrow = own === "target" ? "←" : "→";
  return `${word} ${arrow} ${list.join(", ") || "nothing shown"}${others}`;
}

/** Keep the direction of a word from turning the text around it. */
const isolated = (text) => `\u2068${text}\u2069`;

function cellText({ target, source }) {
  const weight = weights[target][source];
  const link = sentence.links[target] === source ? ", hard link" : "";
  const hidden = weight < threshold ? ", hidden" : "";
  const words = `${isolated(sentence.target[target])} ← ${isolated(sentence.source[source])}`;
  return `${words} ${three(weight)}${link}${hidden}`;
}

function showTip(event, text) {
  const tip = at("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 4))}px`;
  const below = event.clientY + 18;
  tip.style.top = `${below + height > innerHeight ? event.clientY - height - 12 : below}px`;
}

/** Return the word, label or cell under the pointer, in the form of `active`. */
function pointedAt(event) {
  const marked = event.target.closest?.("[data-side]");
  if (marked) return { [marked.dataset.side]: Number(marked.dataset.index) };
  const svg = event.target.closest?.("#matrix svg");
  if (!svg) return null;
  const { left, top, width } = svg.getBoundingClientRect();
  const scale = picture.width / width;
  const source = Math.floor(((event.clientX - left) * scale - picture.left) / picture.cell);
  const target = Math.floor(((event.clientY - top) * scale - picture.top) / picture.cell);
  return weights[target]?.[source] === undefined ? null : { target, source };
}

const same = (a, b) => a?.source === b?.source && a?.target === b?.target;

function followPointer(event) {
  const pointed = pointedAt(event);
  if (!same(pointed, active)) activate(pointed);
  const isCell = pointed?.source !== undefined && pointed?.target !== undefined;
  showTip(event, isCell && event.pointerType === "mouse" ? cellText(pointed) : "");
}

function leave(event) {
  showTip(event, "");
  const focused = document.activeElement?.closest?.(".word");
  activate(focused ? { [focused.dataset.side]: Number(focused.dataset.index) } : null);
}

for (const id of [...SIDES, "matrix"]) {
  for (const kind of ["pointermove", "pointerdown"]) at(id).addEventListener(kind, followPointer);
  at(id).addEventListener("pointerleave", (event) => event.pointerType === "mouse" && leave(event));
  at(id).addEventListener("focusout", leave);
}

// --- words and cells by keyboard -----------------------------------------------------------------

/** Return where an arrow key, Home or End leads from `index`; undefined for any other key. */
function step(key, index, count, back, forth) {
  const to = { [back]: index - 1, [forth]: index + 1, Home: 0, End: count - 1 }[key];
  return to === undefined ? undefined : Math.max(0, Math.min(count - 1, to));
}

for (const side of SIDES) {
  at(side).addEventListener("focusin", ({ target: word }) => {
    for (const one of at(side).children) one.tabIndex = one === word ? 0 : -1;
    activate({ [side]: Number(word.dataset.index) });
  });
  at(side).addEventListener("keydown", (event) => {
    if (event.key === "Escape") return document.activeElement.blur();
    const arrows = ["ArrowLeft", "ArrowRight"];
    if (getComputedStyle(at(side)).direction === "rtl") arrows.reverse();
    const index = Number(event.target.dataset.index);
    const to = step(event.key, index, sentence[side].length, ...arrows);
    if (to === undefined) return;
    event.preventDefault();
    at(side).children[to].focus();
  });
}

at("matrix").addEventListener("focusin", () => {
  if (picture && at("matrix").matches(":focus-visible")) activate({ ...cursor });
});
at("matrix").addEventListener("pointerdown", (event) => {
  cursor = { ...cursor, ...pointedAt(event) };
});
at("matrix").addEventListener("keydown", (event) => {
  if (!picture) return;
  if (event.key === "Escape") return at("matrix").blur();
  const row = step(event.key, cursor.target, sentence.target.length, "ArrowUp", "ArrowDown");
  const column = step(event.key, cursor.source, sentence.source.length, "ArrowLeft", "ArrowRight");
  if (row === undefined && column === undefined) return;
  event.preventDefault();
  if (event.key.startsWith("Arrow")) cursor.target = row ?? cursor.target;
  cursor.source = column ?? cursor.source;
  activate({ ...cursor });
  document.querySelector("#overlay .cell").scrollIntoView({ block: "nearest", inline: "nearest" });
});

// --- the list ------------------------------------------------------------------------------------

const KEYS = {
  id: (one) => one.id, length: (one) => one.source.length, confidence: (one) => one.confidence,
  entropy: (one) => one.entropy, score: (one) => one.score,
};

/** Drop case and accents, which do not matter in a search. */
const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
const texts = data.sentences.map(
  (one) => SIDES.map((side) => plain(one[side].join(" "))).join("\n"));

const STATISTICS = ["confidence", "entropy", "score"];

/** Say the length of a sentence and those of its statistics that are known. */
function facts(one, names = STATISTICS) {
  const known = names.filter((name) => one[name] !== null)
    .map((name) => `${name} ${one[name].toFixed(2).replace("-", "−")}`);
  return [`${one.source.length} → ${one.target.length} words`, ...known].join(" · ");
}

const items = data.sentences.map((one, n) => {
  const item = document.createElement("li");
  item.id = `item-${n}`;
  item.role = "option";
  item.ariaSelected = "false";
  item.append(...SIDES.map((side) => Object.assign(document.createElement("span"), {
    dir: "auto", textContent: one[side].join(" "),
  })), document.createElement("small"));
  return item;
});

/** List the sentences that the search finds, in the order that is asked for. */
function arrange() {
  const query = plain(at("search").value.trim().replace(/\s+/g, " "));
  const order = at("sort").value, key = KEYS[order];
  const statistic = STATISTICS.includes(order) ? order : "confidence";
  const sign = at("direction").getAttribute("aria-pressed") === "true" ? -1 : 1;
  visible = [...data.sentences.keys()].filter((n) => texts[n].includes(query));
  visible.sort((a, b) => {
    const x = key(data.sentences[a]), y = key(data.sentences[b]);
    // unknown ones go last
    if (x === null || y === null) return (x === null) - (y === null) || a - b;
    return sign * (x - y) || a - b;
  });
  for (const n of visible) {
    const one = data.sentences[n];
    items[n].lastChild.textContent = `${one.id} · ${facts(one, [statistic])}`;
  }
  at("list").replaceChildren(...visible.map((n) => items[n]));
  const total = data.sentences.length;
  at("count").textContent = visible.length === total ? `${total} sentence${total === 1 ? "" : "s"}`
    : `${visible.length} of ${total} sentences`;
  if (visible.length && !visible.includes(chosen)) choose(visible[0]);
  else showPlace();
}

/** Show in the list, and by the buttons beside the heading, where the chosen sentence stands. */
function showPlace() {
  const place = visible.indexOf(chosen);
  at("previous").disabled = place <= 0;
  at("next").disabled = place < 0 || place === visible.length - 1;
  if (place < 0) at("list").removeAttribute("aria-activedescendant");
  else {
    at("list").setAttribute("aria-activedescendant", items[chosen].id);
    const list = at("list"), box = list.getBoundingClientRect();
    const item = items[chosen].getBoundingClientRect(); // the list scrolls, and never the page
    if (item.top < box.top) list.scrollTop -= box.top - item.top;
    else if (item.bottom > box.bottom) list.scrollTop += item.bottom - box.bottom;
  }
}

/** Show a sentence, given its index into data.sentences. */
function choose(n) {
  items[chosen]?.setAttribute("aria-selected", "false");
  chosen = n;
  items[chosen].setAttribute("aria-selected", "true");
  sentence = data.sentences[n];
  weights = decode(sentence);
  cursor = { target: 0, source: 0 };
  active = null;
  at("name").textContent = `Sentence ${sentence.id}`;
  at("facts").textContent = facts(sentence);
  at("done").textContent = "";
  for (const side of SIDES) {
    at(side).replaceChildren(...sentence[side].map((word, index) => {
      const shown = { className: "word", textContent: word, tabIndex: index ? -1 : 0 };
      const made = Object.assign(document.createElement("span"), shown);
      Object.assign(made.dataset, { side, index });
      return made;
    }));
  }
  at("matrix").scrollTo(0, 0);
  showMatrix();
  showPlace();
  if (linked() !== sentence.id) history.replaceState(null, "", `#sentence=${sentence.id}`);
}

/** Choose another sentence of the list by a key. */
function move(event) {
  const place = visible.indexOf(chosen), page = 8;
  const to = event.key === "PageDown" ? Math.min(place + page, visible.length - 1)
    : event.key === "PageUp" ? Math.max(place - page, 0)
    : step(event.key, place, visible.length, "ArrowUp", "ArrowDown");
  if (to === undefined || !visible.length) return;
  event.preventDefault();
  if (to !== place) choose(visible[to]);
}

at("list").addEventListener("keydown", move);
at("list").addEventListener("click", (event) => {
  const item = event.target.closest("li");
  if (item) choose(Number(item.id.slice("item-".length)));
});
at("search").addEventListener("input", arrange);
at("search").addEventListener("keydown", (event) => {
  if (event.key === "ArrowUp" || event.key === "ArrowDown") move(event);
});
at("sort").addEventListener("change", arrange);
at("direction").addEventListener("click", ({ currentTarget: button }) => {
  const descending = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", descending);
  button.textContent = descending ? "↓" : "↑";
  arrange();
});
at("previous").addEventListener("click", () => choose(visible[visible.indexOf(chosen) - 1]));
at("next").addEventListener("click", () => choose(visible[visible.indexOf(chosen) + 1]));

// --- controls ------------------------------------------------------------------------------------

for (const radio of document.querySelectorAll("[name=mode]")) {
  radio.addEventListener("change", () => {
    hard = radio.value === "hard";
    showMatrix();
  });
}
at("threshold").addEventListener("input", ({ target: slider }) => {
  threshold = Number(slider.value);
  at("threshold-value").textContent = threshold.toFixed(2);
  showMatrix();
});

/** Hand a file to the reader. */
function download(blob, suffix) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `alignment-${sentence.id}.${suffix}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  at("done").textContent = `${link.download} saved`;
}

at("svg").addEventListener("click", () =>
  download(new Blob([draw("#000", "#fff").text], { type: "image/svg+xml" }), "svg"));

at("png").addEventListener("click", async () => {
  const { text, width, height } = draw("#000", "#fff");
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const scale = Math.min(3, Math.sqrt(16e6 / (width * height))); // phones allow no more dots
  const canvas = document.createElement("canvas");
  canvas.width = Math.floor(width * scale);
  canvas.height = Math.floor(height * scale);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => download(blob, "png"), "image/png");
});

at("copy").addEventListener("click", async () => {
  const line = pharaoh();
  try {
    await navigator.clipboard.writeText(line);
  } catch { // not every browser allows it to a page on disk
    getSelection().selectAllChildren(at("pharaoh"));
    document.execCommand("copy");
  }
  at("done").textContent = "Pharaoh line copied";
});

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  at("theme").setAttribute("aria-pressed", theme === "dark");
}
const system = matchMedia("(prefers-color-scheme: dark)");
const followSystem = () => setTheme(system.matches ? "dark" : "light");
system.addEventListener("change", followSystem);
at("theme").addEventListener("click", () => {
  system.removeEventListener("change", followSystem); // the reader has chosen
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
});

// --- start ---------------------------------------------------------------------------------------

/** Return the number in an address that ends in #sentence=17, or null. */
function linked() {
  const match = /^#sentence=(-?\d+)$/.exec(location.hash);
  return match ? Number(match[1]) : null;
}

/** Show the sentence that the address names; return false if there is no such sentence. */
function follow() {
  const n = data.sentences.findIndex((one) => one.id === linked());
  if (n < 0) return false;
  if (visible.length && !visible.includes(n)) at("search").value = "";
  choose(n);
  arrange();
  return true;
}

followSystem();
for (const option of at("sort").options) {
  option.disabled = data.sentences.every((one) => KEYS[option.value](one) === null);
}
const wanted = linked();
if (!follow()) {
  arrange();
  if (wanted !== null) at("count").textContent += `; there is no sentence ${wanted}`;
}
addEventListener("hashchange", follow);
