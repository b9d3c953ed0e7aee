/*
 * One step under the glass: the paper's equations in the order in which this model takes them, each
 * with its live values. A vector is a strip of colour, with the number under the pointer.
 */
const sub = (letter, index) => `${letter}<sub>${index}</sub>`;
const NOW = "i", BEFORE = "i−1";
const ORDERS = {
  program: "in the order of the authors' program: s<sub>i</sub> is made after the word is chosen, and reads y<sub>i</sub>",
  appendix: "in the order of appendix A.2.2: the word is read from s<sub>i−1</sub>, and s<sub>i</sub> reads y<sub>i−1</sub>",
  section3: "in the order of section 3.1: s<sub>i</sub> reads y<sub>i−1</sub>, and the word is read from s<sub>i</sub>",
};
const ENERGIES = {
  additive: "e<sub>ij</sub> = v<sub>a</sub> · tanh(W<sub>a</sub> s<sub>i−1</sub> + U<sub>a</sub> h<sub>j</sub>)",
  general: "e<sub>ij</sub> = s<sub>i−1</sub> W h<sub>j</sub>",
  dot: "e<sub>ij</sub> = s<sub>i−1</sub> · h<sub>j</sub>",
};
const POSITIVE = [200, 60, 30], ZERO = [244, 243, 240], NEGATIVE = [30, 96, 190];

/** Mix the colours of numbers from -1 to 1. */
function colourOf(value) {
  const end = value < 0 ? NEGATIVE : POSITIVE, share = Math.min(1, Math.abs(value));
  return ZERO.map((part, k) => part + share * (end[k] - part));
}

const shown = (value) => value.toFixed(3).replace("-", "−");

/**
 * Return a vector as a strip of colour: its numbers side by side, or in pairs above each other.
 *
 * `say` makes the text for a place, or for the column of a pair.
 */
function strip(values, name, say, rows = 1) {
  const columns = values.length / rows;
  const most = Math.max(...values.map(Math.abs)) || 1;
  const canvas = made("canvas", { width: columns, height: rows });
  const image = new ImageData(columns, rows);
  values.forEach((value, k) => {
    const place = rows === 1 ? k : Math.floor(k / rows) + (k % rows) * columns;
    image.data.set([...colourOf(value / most), 255], 4 * place);
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  const said = made("output", { textContent: `${values.length} numbers within ±${shown(most)}` });
  const box = made("div", {
    className: "strip", tabIndex: 0, role: "slider", ariaLabel: name, ariaValueMin: "0",
    ariaValueMax: String(columns - 1), ariaValueNow: "0",
  }, canvas, said);
  let place = 0;
  const point = (k) => {
    place = Math.max(0, Math.min(columns - 1, k));
    box.ariaValueNow = String(place);
    box.ariaValueText = said.textContent = say(place);
  };
  canvas.addEventListener("pointermove", ({ offsetX }) =>
    point(Math.floor((offsetX / canvas.clientWidth) * columns)));
  box.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    point(place + by);
  });
  return box;
}

/** Return a line: an equation, made here, and its values. */
function line(equation, ...values) {
  return made("div", { className: "equation" }, made("p", { innerHTML: equation }),
    made("div", {}, ...values));
}

const vector = (equation, values, name) =>
  line(equation, strip(values, name, (k) => `${name}, number ${k + 1}: ${shown(values[k])}`));

/** Return source words with their energies and weights. */
function attention({ energies, alpha }, words) {
  const cell = (text, className = "number") => made("td", { textContent: text, className });
  const row = (name, cells) => made("tr", {}, made("th", { scope: "row", innerHTML: name }), ...cells);
  const weights = alpha.map((weight) => {
    const one = cell(shown(weight), "number weight");
    one.style.setProperty("--probability", weight);
    return one;
  });
  return made("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "energies and weights" },
    made("table", {},
      row("h<sub>j</sub>", words.map((word) => cell(word, ""))),
      row("e<sub>ij</sub>", energies.map((energy) => cell(shown(energy)))),
      row("α<sub>ij</sub>", weights)));
}

/** Return the equations of the new state. */
function update({ unit, order, update: values }) {
  const read = `e(${sub("y", order === "program" ? NOW : BEFORE)})`;
  const given = (gate) => `${sub("W", gate)} ${read} + ${sub("U", gate)} ${sub("s", BEFORE)} + ${sub("C", gate)} ${sub("c", NOW)}`;
  if (unit === "lstm") {
    return [
      vector(`${sub("i", NOW)} = σ(${given("i")})`, values.i, "input gate"),
      vector(`${sub("f", NOW)} = σ(${given("f")})`, values.f, "forget gate"),
      vector(`${sub("o", NOW)} = σ(${given("o")})`, values.o, "output gate"),
      vector(`${sub("g", NOW)} = tanh(${given("g")})`, values.g, "proposed state"),
      vector(`cell = ${sub("f", NOW)} ∘ cell before + ${sub("i", NOW)} ∘ ${sub("g", NOW)}`, values.cell, "cell"),
      vector(`${sub("s", NOW)} = ${sub("o", NOW)} ∘ tanh(cell)`, values.state, "new state"),
    ];
  }
  return [
    vector(`${sub("r", NOW)} = σ(${given("r")})`, values.r, "reset gate"),
    vector(`${sub("z", NOW)} = σ(${given("z")})`, values.z, "update gate"),
    vector(`${sub("s̃", NOW)} = tanh(W ${read} + U [${sub("r", NOW)} ∘ ${sub("s", BEFORE)}] + C ${sub("c", NOW)})`,
      values.proposed, "proposed state"),
    vector(`${sub("s", NOW)} = (1 − ${sub("z", NOW)}) ∘ ${sub("s", BEFORE)} + ${sub("z", NOW)} ∘ ${sub("s̃", NOW)}`,
      values.state, "new state"),
  ];
}

/** Return the equations from the state to the word. */
function output({ order, sum, t, likeliest, chosen }) {
  const state = sub("s", order === "section3" ? NOW : BEFORE);
  const pair = (j) => `pair ${j + 1}: ${shown(sum[2 * j])} and ${shown(sum[2 * j + 1])}, `
    + `the larger is ${shown(t[j])}`;
  const words = likeliest.map(([token, probability]) => {
    const one = made("li", { className: token === chosen ? "chosen" : "" },
      made("span", { textContent: token }), made("small", { textContent: probability.toFixed(4) }));
    one.style.setProperty("--probability", probability);
    return one;
  });
  return [
    line(`${sub("t̃", NOW)} = ${sub("U", "o")} ${state} + ${sub("V", "o")} e(${sub("y", BEFORE)}) + ${sub("C", "o")} ${sub("c", NOW)} + b`,
      strip(sum, "maxout pairs", pair, 2)),
    vector(`${sub("t", "ij")} = max(${sub("t̃", "i,2j−1")}, ${sub("t̃", "i,2j")})`, t, "maxout"),
    line(`p(${sub("y", NOW)}) = softmax(${sub("W", "o")} ${sub("t", NOW)} + ${sub("b", "o")}), the ten likeliest words`,
      made("ol", { className: "likeliest" }, ...words)),
  ];
}

/** The step that is looked at, of which view. */
const glass = {
  view: null,
  step: 0,

  async refresh() {
    const { view } = this, answer = view?.answer;
    at("glass").hidden = !answer;
    if (!answer) return;
    this.step = Math.max(0, Math.min(answer.pieces.length - 1, this.step));
    const { number, touched: { rows } } = view;
    const values = await rnnsearch.step(at("sentence").value, answer.pieces, this.step, { model: number, rows });
    if (answer !== view.answer) return; // another sentence meanwhile, which has its own refresh
    const word = values.chosen.replace(/@@$/, "");
    at("glass-name").textContent = `${view.name}, step ${this.step + 1} of ${answer.pieces.length}: ${word}`;
    at("before").disabled = this.step === 0;
    at("after").disabled = this.step === answer.pieces.length - 1;
    const before = values.previous ?? "none yet, e(y) is zero";
    const weights = rows[this.step] ? "as they were moved by hand"
      : `= exp ${sub("e", "ij")} / Σ<sub>k</sub> exp ${sub("e", "ik")}`;
    const looks = values.alpha
      ? [line(`${ENERGIES[values.alignment]}<br>${sub("α", "ij")} ${weights}`,
        attention(values, answer.sourcePieces)),
        vector(`${sub("c", NOW)} = Σ<sub>j</sub> ${sub("α", "ij")} ${sub("h", "j")}`, values.c, "context")]
      : [vector(`${sub("c", NOW)} = the last forward state, at every step (RNNencdec)`, values.c, "context")];
    const [making, reading] = [update(values), output(values)];
    at("equations").replaceChildren(
      made("p", { className: "faint", innerHTML: ORDERS[values.order] }),
      line(sub("y", BEFORE), made("span", { textContent: before })),
      vector(`e(${sub("y", BEFORE)})`, values.y, "word before"),
      vector(sub("s", BEFORE), values.s, "state before"), ...looks,
      ...(values.order === "section3" ? [...making, ...reading] : [...reading, ...making]));
  },
};

/** Put a step of a view under the glass, and show what else was likely there. */
function lookAt(view, i) {
  Object.assign(glass, { view, step: i });
  view.openStep(i);
  return glass.refresh().then(() => at("glass").scrollIntoView({ block: "nearest" }));
}
