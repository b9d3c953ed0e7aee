"use strict";
/*
 * The heatmap component: two sentences as words, and the matrix of weights between them, linked by
 * hovering, tapping, focus and arrow keys. It fetches nothing and does not depend on its page, where
 * any number of them can stand. Its style is heatmap.css. What pages share follows it.
 *
 *   const view = new Heatmap(element);            // fills the empty element
 *   view.show({ source, target, weights, links, probabilities, mattered }, active);
 *     // words with their end symbols; weights[target][source] in 0..1, or NaN;
 *     // links[target] is its hard link (default: the best); probabilities of target words, and
 *     // mattered[target][source], if known; active: the cell that is active then, if any
 *   view.set({ mode, threshold, inverted });      // any of them; "soft", 0 and false at first
 *     // mode: "soft" draws weights, "hard" links, "mattered" what each source word was worth
 *   view.pharaoh()                                // the links that are not hidden, "0-0 1-2"
 *   view.draw("#000", "#fff")                     // {text, width, height} of an SVG for a file
 *
 * The element gets an event "activate" when a word or a cell becomes active; its detail is
 * {target}, {source}, both for a cell, or null.
 */

const SIDES = ["source", "target"];
const END = "</s>";
const GREYS = 256; // as in pictures.py
const FONT = "system-ui, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', Arial, sans-serif";
const LONGEST_LABEL = 32;
const SMALLEST_CELL = 18; // in pixels, in which there is room for a weight in figures
const LARGEST_CELL = 4; // in sizes of the page's text, where cells grow
const RIGHT_TO_LEFT = /[\p{sc=Hebrew}\p{sc=Arabic}\p{sc=Syriac}\p{sc=Thaana}\p{sc=Nko}]/u;

/** The rule of pictures.py: 0..1 is cut into GREYS equal parts, 0 is black; NaN stays NaN. */
const grey = (weight) => Math.max(0, Math.min(GREYS - 1, Math.floor(GREYS * weight)));

// For numbers of either sign: red, white at zero, blue; nearly those of draw_heatmap(signed=True).
const NEGATIVE = [178, 24, 43], ZERO = [247, 247, 247], POSITIVE = [33, 102, 172];

/** Mix the colours of numbers from -1 to 1. */
function colourOf(value) {
  const end = value < 0 ? NEGATIVE : POSITIVE, share = Math.min(1, Math.abs(value));
  return ZERO.map((part, k) => Math.round(part + share * (end[k] - part)));
}

/** Format a number with a fixed number of decimals and a minus sign as wide as a plus. */
const figures = (value, decimals) => (Number.isNaN(value) ? "NaN"
  : value.toFixed(decimals).replace(/^-(?=.*[1-9])/, "−").replace("-", ""));
const three = (value) => figures(value, 3);

/** Isolate a word's direction from the text around it. */
const isolated = (text) => `\u2068${text}\u2069`;

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
  return RIGHT_TO_LEFT.test(text) ? isolated(text) : text;
}

/** Count the words of a sentence; its end symbol is none. */
const wordCount = (words) => words.length - (words.at(-1) === END);

/** Return the key of an event; with Ctrl, Alt or Meta it is the browser's, and undefined. */
const plainKey = ({ key, ctrlKey, altKey, metaKey }) =>
  (ctrlKey || altKey || metaKey ? undefined : key);

/** Return where an arrow key, Home or End leads from `index`; undefined for any other key. */
function step(key, index, count, back, forth) {
  const to = { [back]: index - 1, [forth]: index + 1, Home: 0, End: count - 1 }[key];
  return to === undefined ? undefined : Math.max(0, Math.min(count - 1, to));
}

/** Return the best source word of each target word; end symbols have no link. */
function bestLinks({ source, target, weights }) {
  const count = wordCount(source);
  if (!count) return [];
  return weights.slice(0, wordCount(target)).map((row) => {
    const words = row.slice(0, count);
    return words.indexOf(Math.max(...words));
  });
}

/** Return a sentence with its numbers, which page.py has written in two bytes, the lower first. */
function decoded(sentence, { steps, nan }) {
  const matrix = (base64, least, most) => {
    const bytes = atob(base64);
    let next = 0;
    return sentence.target.map(() => Array.from(sentence.source, () => {
      const value = bytes.charCodeAt(next++) | (bytes.charCodeAt(next++) << 8);
      return value === nan ? NaN : least + (most - least) * (value / steps);
    }));
  };
  const { weights, mattered: effects } = sentence;
  const mattered = effects && matrix(effects.numbers, -effects.most, effects.most);
  return { ...sentence, weights: matrix(weights, 0, 1), mattered };
}

/** Make an element with properties, attributes in `data-` and children. */
function create(name, properties = {}, ...children) {
  const { data = {}, ...others } = properties;
  const element = Object.assign(document.createElement(name), others);
  Object.assign(element.dataset, data);
  element.append(...children);
  return element;
}

function svgElement(name, attributes, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

const same = (a, b) => a?.source === b?.source && a?.target === b?.target;
const isCell = (place) => place?.source !== undefined && place?.target !== undefined;

class Heatmap {
  #root;
  #parts; // the elements source, target, readout, matrix and legend
  #sentence; // what show() was given, with links
  #most = 1; // the largest absolute number of what mattered, which has the full colour
  #mode = "soft";
  #threshold = 0;
  #inverted = false; // 0 white and 1 black
  #active = null; // what is pointed at or has the focus: {target}, {source}, or both for a cell
  #picture = null; // where things lie in the heatmap; null where there is nothing to draw
  #cursor = { target: 0, source: 0 }; // the cell from which arrow keys move in the matrix
  #ruler = document.createElement("canvas").getContext("2d");
  #grows;

  /**
   * Fill an element. With `grows`, cells are as large as the element's width and the window's
   * height allow.
   */
  constructor(root, grows = false) {
    this.#root = root;
    this.#grows = grows;
    root.classList.add("heatmap");
    root.innerHTML = `
      <dl class="pairs">
        <div><dt>Source</dt><dd class="source" dir="auto" role="group" aria-label="Source"></dd></div>
        <div><dt>Target</dt><dd class="target" dir="auto" role="group" aria-label="Target"></dd></div>
      </dl>
      <p class="readout" role="status"></p>
      <div class="matrix" tabindex="0" role="application" aria-roledescription="alignment matrix">
      </div>
      <p class="legend faint"></p>`;
    const find = (part) => [part, root.querySelector(`.${part}`)];
    this.#parts = Object.fromEntries([...SIDES, "readout", "matrix", "legend"].map(find));
    SIDES.forEach((side) => this.#followWords(side));
    this.#followMatrix();
    for (const part of [...SIDES, "matrix"].map((name) => this.#parts[name])) {
      for (const kind of ["pointermove", "pointerdown"]) {
        part.addEventListener(kind, (event) => this.#followPointer(event));
      }
      part.addEventListener("pointerleave", (event) => {
        if (event.pointerType === "mouse") this.#leave();
      });
      part.addEventListener("focusout", () => this.#leave());
    }
  }

  /** Show another sentence pair; a cell may be active then. */
  show(sentence, active = null) {
    this.#sentence = { ...sentence, links: sentence.links ?? bestLinks(sentence) };
    const sizes = (sentence.mattered ?? []).flat().map(Math.abs);
    this.#most = sizes.reduce((most, size) => (size > most ? size : most), 0) || 1;
    this.#cursor = { target: 0, source: 0, ...active };
    this.#active = active;
    for (const side of SIDES) {
      this.#parts[side].replaceChildren(...sentence[side].map((word, index) => {
        const tabIndex = index ? -1 : 0, data = { side, index };
        return create("span", { className: "word", textContent: word, tabIndex, data });
      }));
    }
    this.#drawMatrix();
  }

  /** Draw something other than weights, hide weights below a threshold, or invert shades. */
  set({ mode = this.#mode, threshold = this.#threshold, inverted = this.#inverted }) {
    this.#mode = mode;
    this.#threshold = threshold;
    this.#inverted = inverted;
    if (this.#sentence) this.#drawMatrix();
  }

  /** Return the links that are not hidden as "0-0 1-2 ...", with the source first. */
  pharaoh() {
    const { links, weights } = this.#sentence;
    return links
      .map((source, target) =>
        (weights[target][source] < this.#threshold ? "" : `${source}-${target}`))
      .filter(Boolean).join(" ");
  }

  /** Whether what mattered is drawn; if it is unknown, weights are. */
  get #isSigned() {
    return this.#mode === "mattered" && Boolean(this.#sentence.mattered);
  }

  /** Whether 0 is light. */
  get #isLight() {
    return this.#inverted || this.#isSigned;
  }

  /** Return the matrix whose numbers the cells show. */
  get #values() {
    return this.#sentence[this.#isSigned ? "mattered" : "weights"];
  }

  /** Return a cell's weight, 1 for a hard link, its signed share of what mattered, 0 if hidden. */
  #shade(target, source) {
    const { weights, mattered, links } = this.#sentence, weight = weights[target][source];
    if (weight < this.#threshold) return 0;
    if (this.#isSigned) return mattered[target][source] / this.#most;
    return this.#mode === "hard" ? Number(links[target] === source) : weight;
  }

  /** Return the colour of a shade. */
  #colour(shade) {
    if (Number.isNaN(shade)) return "#f00";
    if (this.#isSigned) return `rgb(${colourOf(shade)})`;
    const tone = this.#inverted ? GREYS - 1 - grey(shade) : grey(shade);
    return `rgb(${tone},${tone},${tone})`;
  }

  /** Return the words of the other side that share a cell with the active word and are shown. */
  #partners() {
    const active = this.#active, values = this.#values;
    const byTarget = active.target !== undefined;
    return this.#sentence[byTarget ? "source" : "target"].map((_, index) => {
      const [row, column] = byTarget ? [active.target, index] : [index, active.source];
      const shade = this.#shade(row, column);
      return { index, row, column, value: values[row][column], shade };
    }).filter((partner) => partner.shade !== 0);
  }

  // --- the picture: one text, for the screen and for files ---------------------------------------

  /**
   * Draw source words on top, target words on the left, 0 black and 1 white (the paper's Figure 3),
   * unless the mode or the inversion is another one.
   *
   * Returns the text of an SVG, and where in it things lie. Without `paper` it has no background.
   * With `space`, {width, height} in pixels, cells grow as far as they fit into it.
   */
  draw(ink, paper, space = null) {
    const [columns, rows] = SIDES.map((side) => this.#sentence[side].map(label));
    const most = Math.max(rows.length, columns.length);
    const gap = 5, margin = 4;
    const longest = (words, font) => { // with the space beside it
      this.#ruler.font = `bold ${font}px ${FONT}`; // as wide as the active label
      return Math.ceil(Math.max(...words.map((word) => this.#ruler.measureText(word).width)))
        + gap + margin;
    };
    // of the text, and of the labels at most
    const size = space ? parseFloat(getComputedStyle(document.documentElement).fontSize) : 16;
    let cell = Math.round(Math.min(24, Math.max(15, 800 / most)) * size / 16);
    if (space) {
      const wide = (space.width - longest(rows, size) - margin) / columns.length;
      const high = (space.height - longest(columns, size) - margin) / rows.length;
      cell = Math.max(cell, Math.floor(Math.min(LARGEST_CELL * size, wide, high)));
    }
    const font = Math.min(size, cell / 1.4, Math.max(13 * size / 16, 0.36 * cell));
    const left = longest(rows, font), top = longest(columns, font);
    const wide = columns.length * cell, high = rows.length * cell;
    const width = left + wide + margin, height = top + high + margin;

    const squares = new Map(), ground = this.#colour(0); // squares of a colour become one path
    rows.forEach((_, i) => columns.forEach((_, j) => {
      const fill = this.#colour(this.#shade(i, j));
      if (fill !== ground) squares.set(fill, `${squares.get(fill) ?? ""}M${j} ${i}h1v1h-1z`);
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
      box(left, top, wide, high, `fill="${ground}"`),
      `<g transform="translate(${left},${top}) scale(${cell})" shape-rendering="crispEdges">`,
      ...paths, "</g>",
      box(left, top, wide, high, `fill="none" stroke="${ink}" stroke-width=".5"`),
      ...onTop, ...onLeft, "</svg>",
    ].join("");
    return { text, width, height, left, top, cell, font };
  }

  #drawMatrix() {
    const { matrix } = this.#parts, { source, target } = this.#sentence;
    const empty = !source.length || !target.length;
    matrix.setAttribute("aria-label", empty ? "nothing to draw"
      : `${target.length} target rows by ${source.length} source columns;`
        + " arrow keys move between cells");
    this.#root.classList.toggle("light", this.#isLight);
    this.#picture = null;
    this.#parts.legend.hidden = empty;
    if (empty) {
      matrix.textContent = "Nothing to draw: one of the sentences is empty.";
    } else {
      const space = { width: matrix.clientWidth - 8, height: 0.6 * innerHeight };
      this.#picture = this.draw("currentColor", "", this.#grows ? space : null);
      matrix.innerHTML = this.#picture.text; // every word in it went through escaped()
      const svg = matrix.firstChild;
      svg.setAttribute("aria-hidden", "true");
      svg.style.setProperty("--natural", `${this.#picture.width}px`);
      svg.querySelectorAll("text").forEach((text, n) => {
        const onTop = n < source.length;
        text.dataset.side = onTop ? "source" : "target";
        text.dataset.index = onTop ? n : n - source.length;
      });
      svg.append(svgElement("g", { class: "overlay" }));
      this.#explainColours();
    }
    this.#highlight();
  }

  /** Show what the colours and the end symbol mean. */
  #explainColours() {
    const most = this.#isSigned ? this.#most : 1, least = this.#isSigned ? -1 : 0;
    const scale = create("i");
    const colours = [least, (least + 1) / 2, 1].map((shade) => this.#colour(shade));
    scale.style.background = `linear-gradient(90deg, ${colours})`;
    const meaning = this.#isSigned
      ? "how far ln p of a target word falls without the source word (blue: it helped, red: it hurt)"
      : this.#mode === "hard" ? "1: hard link" : "weight";
    const end = this.#sentence.source.at(-1) === END ? ` · ${END}: end of the sentence` : "";
    const figure = (value) => figures(value, this.#isSigned ? 2 : 0);
    this.#parts.legend.replaceChildren(
      figure(least * most), scale, figure(most), ` ${meaning}${end}`);
  }

  // --- the active word or cell -------------------------------------------------------------------

  #activate(next) {
    this.#active = next;
    this.#highlight();
    this.#root.dispatchEvent(new CustomEvent("activate", { detail: next }));
  }

  /** Mark the active word and its partners in both sentences and in the matrix, and say them. */
  #highlight() {
    const { readout, matrix } = this.#parts, active = this.#active;
    for (const one of this.#root.querySelectorAll(".active, [data-weight], [data-shade]")) {
      one.classList.remove("active");
      delete one.dataset.weight;
      one.removeAttribute("style");
    }
    matrix.querySelector(".overlay")?.replaceChildren();
    readout.textContent = "";
    if (!active) return;

    const partners = this.#partners();
    const [own, other] = active.target !== undefined ? ["target", "source"] : ["source", "target"];
    const isActive = (side, index) => side === own && index === active[own];
    for (const side of SIDES) {
      for (const marked of this.#root.querySelectorAll(`[data-side="${side}"]`)) {
        const index = Number(marked.dataset.index);
        if (isActive(side, index)) marked.classList.add("active");
        if (side !== other) continue;
        const partner = partners.find((one) => one.index === index);
        if (marked.classList.contains("label")) {
          marked.dataset.shade = partner?.shade ?? 0;
          marked.style.opacity = 0.35 + 0.65 * Math.abs(partner?.shade || 0);
        } else if (partner && (!this.#isSmall(partner.value) || this.#mode === "hard")) {
          marked.dataset.weight = three(partner.value);
          marked.dataset.short = this.#short(partner.value);
          marked.style.setProperty("--weight", Math.abs(partner.shade) || 0);
          if (this.#isSigned) {
            marked.style.setProperty("--tone", this.#colour(Math.sign(partner.shade)));
          }
        }
      }
    }
    if (this.#picture) this.#overlay(partners, own === "target");
    readout.textContent = isCell(active) ? this.#cellText(active)
      : this.#spoken(partners, own, other);
  }

  /** Tell whether a number is too small to be shown. */
  #isSmall(value) {
    return Math.abs(value) < (this.#isSigned ? 0.05 : 0.005);
  }

  /** Format a number to fit into a cell. */
  #short(value) {
    return figures(value, this.#isSigned ? 1 : 2).replace(/^(−?)0/, "$1");
  }

  /** Veil all but the active row or column, frame it, and write its numbers into it. */
  #overlay(partners, isRow) {
    const { left, top, cell } = this.#picture, { source, target } = this.#sentence;
    const layer = this.#parts.matrix.querySelector(".overlay"), active = this.#active;
    const wide = source.length * cell, high = target.length * cell;
    const box = (kind, x, y, width, height) =>
      layer.append(svgElement("rect", { class: kind, x, y, width, height }));
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
    for (const { row, column, value, shade } of partners) {
      if (this.#isSmall(value) || cell < SMALLEST_CELL) continue;
      layer.append(svgElement("text", {
        x: left + (column + 0.5) * cell, y: top + (row + 0.5) * cell, dy: ".35em",
        "text-anchor": "middle", "font-size": Math.min(15, cell * 0.44).toFixed(1),
        fill: Math.abs(shade) > 0.5 !== this.#isLight ? "#000" : "#fff",
        "data-weight": three(value), "data-row": row, "data-column": column,
      }, this.#short(value)));
    }
    if (isCell(active)) {
      box("cell", left + active.source * cell, top + active.target * cell, cell, cell);
    }
  }

  /** Say the active word and its best partners in one line. */
  #spoken(partners, own, other) {
    const best = partners.filter(({ value }) => !this.#isSmall(value))
      .sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    const list = best.slice(0, 6)
      .map(({ index, value }) => isolated(`${this.#sentence[other][index]} ${three(value)}`));
    const others = best.length > 6 ? ` and ${best.length - 6} more` : "";
    const word = isolated(this.#sentence[own][this.#active[own]]);
    const arrow = own === "target" ? "←" : "→";
    const likely = own === "target" && this.#sentence.probabilities;
    const probability = likely ? `; probability ${three(likely[this.#active.target])}` : "";
    return `${word} ${arrow} ${list.join(", ") || "nothing shown"}${others}${probability}`;
  }

  #cellText({ target, source }) {
    const { weights, links, ...words } = this.#sentence;
    const link = links[target] === source ? ", hard link" : "";
    const hidden = weights[target][source] < this.#threshold ? ", hidden" : "";
    const pair = `${isolated(words.target[target])} ← ${isolated(words.source[source])}`;
    return `${pair} ${three(this.#values[target][source])}${link}${hidden}`;
  }

  // --- pointer and keys --------------------------------------------------------------------------

  /** Return the word, label or cell under the pointer, in the form of #active. */
  #pointedAt(event) {
    const marked = event.target.closest?.("[data-side]");
    if (marked) return { [marked.dataset.side]: Number(marked.dataset.index) };
    const svg = event.target.closest?.(".matrix svg");
    if (!svg) return null;
    const { left, top, width } = svg.getBoundingClientRect();
    const scale = this.#picture.width / width, { cell } = this.#picture;
    const source = Math.floor(((event.clientX - left) * scale - this.#picture.left) / cell);
    const target = Math.floor(((event.clientY - top) * scale - this.#picture.top) / cell);
    return this.#sentence.weights[target]?.[source] === undefined ? null : { target, source };
  }

  #followPointer(event) {
    const pointed = this.#pointedAt(event);
    if (!same(pointed, this.#active)) this.#activate(pointed);
  }

  #leave() {
    const focused = this.#root.querySelector(".word:focus");
    this.#activate(focused ? { [focused.dataset.side]: Number(focused.dataset.index) } : null);
  }

  /** Let arrow keys move through the words of a sentence, one of which can have the focus. */
  #followWords(side) {
    const words = this.#parts[side];
    words.addEventListener("focusin", ({ target: word }) => {
      for (const one of words.children) one.tabIndex = one === word ? 0 : -1;
      this.#activate({ [side]: Number(word.dataset.index) });
    });
    words.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return event.target.blur();
      const arrows = ["ArrowLeft", "ArrowRight"];
      if (getComputedStyle(words).direction === "rtl") arrows.reverse();
      const index = Number(event.target.dataset.index);
      const to = step(plainKey(event), index, words.children.length, ...arrows);
      if (to === undefined) return;
      event.preventDefault();
      words.children[to].focus();
    });
  }

  /** Let arrow keys move between cells. */
  #followMatrix() {
    const { matrix } = this.#parts;
    matrix.addEventListener("focusin", () => {
      if (this.#picture && matrix.matches(":focus-visible")) this.#activate({ ...this.#cursor });
    });
    matrix.addEventListener("pointerdown", (event) => {
      this.#cursor = { ...this.#cursor, ...this.#pointedAt(event) };
    });
    matrix.addEventListener("keydown", (event) => {
      if (!this.#picture) return;
      if (event.key === "Escape") return matrix.blur();
      const { source, target } = this.#sentence, key = plainKey(event), cursor = this.#cursor;
      const row = step(key, cursor.target, target.length, "ArrowUp", "ArrowDown");
      const column = step(key, cursor.source, source.length, "ArrowLeft", "ArrowRight");
      if (row === undefined && column === undefined) return;
      event.preventDefault();
      if (key.startsWith("Arrow")) cursor.target = row ?? cursor.target;
      cursor.source = column ?? cursor.source;
      this.#activate({ ...cursor });
      const nearest = { block: "nearest", inline: "nearest" };
      matrix.querySelector(".overlay .cell").scrollIntoView(nearest);
    });
  }
}

// --- parts of a page by name, light and dark, files -----------------------------------------------

const at = (id) => document.getElementById(id);

at("theme")?.addEventListener("click", () => {
  const { dataset } = document.documentElement;
  dataset.theme ??= matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  dataset.theme = dataset.theme === "dark" ? "light" : "dark";
});

/** Offer a file as a download. */
function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Return a picture from Heatmap.draw() as a file, "svg" or "png". */
async function fileOf({ text, width, height }, kind) {
  if (kind === "svg") return new Blob([text], { type: "image/svg+xml" });
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  // phones allow no more pixels, and browsers no longer sides
  const scale = Math.min(3, Math.sqrt(16e6 / (width * height)), 16000 / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.floor(width * scale);
  canvas.height = Math.floor(height * scale);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}

// --- a page with nothing but a heatmap, in a frame such as a notebook's --------------------------

if (at("alone")) {
  const data = JSON.parse(at("data").textContent), view = new Heatmap(at("heatmap"));
  view.set({ inverted: data.inverted });
  view.show(decoded(data.sentences[0], data));
  at("mattered")?.addEventListener("change", ({ target: box }) => {
    view.set({ mode: box.checked ? "mattered" : "soft" });
  });
  new ResizeObserver(() => { // the frame, if this script may reach it, is as high as its content
    if (frameElement) frameElement.style.height = `${document.body.scrollHeight + 2}px`;
  }).observe(document.body);
}
