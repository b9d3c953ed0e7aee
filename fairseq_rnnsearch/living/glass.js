/*
 * One step: the paper's equations with their values, in the order in which the model computes them.
 * A vector is a strip of colours; point at a number to read it.
 */
const ORDERS = {
  program: "the authors' program: the word is predicted from s_{i−1}, and s_i reads y_i",
  appendix: "appendix A.2.2: the word is predicted from s_{i−1}, and s_i reads y_{i−1}",
  section3: "section 3.1: s_i reads y_{i−1}, and the word is predicted from s_i",
};

/** Return an equation such as "s_i = f(s_{i−1})" with subscripts. */
function typeset(equation) {
  return equation.split(/_(\{[^}]*\}|\p{L})/u).map((part, k) =>
    (k % 2 ? create("sub", { textContent: part.replace(/[{}]/g, "") }) : part));
}

/**
 * Return a vector as a strip of colours: its numbers side by side, or pairs above each other.
 *
 * `say` returns the text for a number, or for a pair. The colour scale ends at the largest absolute
 * value, or for a gate at 1.
 */
function colourStrip(values, name, say, { rows = 1, isGate = false } = {}) {
  const columns = values.length / rows;
  const most = isGate ? 1 : Math.max(...values.map(Math.abs)) || 1;
  const scale = isGate ? "on a scale of 0 to 1" : `within ±${three(most)}`;
  const canvas = create("canvas", { width: columns, height: rows });
  const image = new ImageData(columns, rows);
  values.forEach((value, k) => {
    const pixel = rows === 1 ? k : Math.floor(k / rows) + (k % rows) * columns;
    image.data.set([...colourOf(value / most), 255], 4 * pixel);
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  const said = create("output", { textContent: `${values.length} numbers ${scale}` });
  const box = create("div", {
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
    const to = step(plainKey(event), place, columns, "ArrowLeft", "ArrowRight");
    if (to === undefined) return;
    event.preventDefault();
    point(to);
  });
  return box;
}

/** Return a line: equations, and their values. */
function line(equations, ...values) {
  const lines = equations.split("\n").map((one) => create("p", {}, ...typeset(one)));
  return create("div", { className: "equation" }, create("div", {}, ...lines),
    create("div", {}, ...values));
}

const vector = (equation, values, name, options) => line(equation,
  colourStrip(values, name, (k) => `${name}, number ${k + 1}: ${three(values[k])}`, options));
const gate = (equation, values, name) => vector(equation, values, name, { isGate: true });

/** Return a token that stands alone, of side 0 or 1; "…" says that its word continues. */
const listed = (token, side = 1) => shownPiece(token, { hasPieces: facts.hasPieces[side] }, "…");

/** Return a list of [word, what is said of it, its share, whether it stands out]. */
function wordList(entries, side) {
  return create("ol", { className: "likeliest", lang: facts.languages[side] }, ...entries.map(
    ([word, said, share, isChosen]) => {
      const item = create("li", { className: isChosen ? "chosen" : "" },
        create("span", { textContent: listed(word, side) }), create("small", { textContent: said }));
      item.style.setProperty("--probability", share);
      return item;
    }));
}

/** Return source words with their energies and weights. */
function attention({ energies, alpha }, words) {
  const most = Math.max(...alpha);
  return wordList(words.map((word, j) => [
    word, `${figures(energies[j], 1)} → ${three(alpha[j])}`, alpha[j], alpha[j] === most,
  ]), 0);
}

/** Return the equations of the new state. */
function update({ order, update: values }) {
  const y = order === "program" ? "e(y_i)" : "e(y_{i−1})";
  const sum = (k) => `W_${k} ${y} + U_${k} s_{i−1} + C_${k} c_i`;
  const proposed = `s̃_i = tanh(W ${y} + U [r_i ∘ s_{i−1}] + C c_i)`;
  return [
    gate(`r_i = σ(${sum("r")})`, values.r, "reset gate"),
    gate(`z_i = σ(${sum("z")})`, values.z, "update gate"),
    vector(proposed, values.proposed, "proposed state"),
    vector("s_i = (1 − z_i) ∘ s_{i−1} + z_i ∘ s̃_i", values.state, "new state"),
  ];
}

/** Return the equations from the state to the word. */
function output({ order, sum, t, likeliest, chosen }) {
  const state = order === "section3" ? "s_i" : "s_{i−1}";
  const pair = (j) => `pair ${j + 1}: ${three(sum[2 * j])} and ${three(sum[2 * j + 1])}, `
    + `maximum ${three(t[j])}`;
  const words = likeliest.map(
    ([token, probability]) => [token, probability.toFixed(4), probability, token === chosen]);
  return [
    line(`t̃_i = U_o ${state} + V_o e(y_{i−1}) + C_o c_i + b`,
      colourStrip(sum, "maxout pairs", pair, { rows: 2 })),
    vector("t_{ij} = max(t̃_{i,2j−1}, t̃_{i,2j})", t, "maxout"),
    line("p(y_i) = softmax(W_o t_i + b_o), the ten most likely words",
      wordList(words, 1)),
  ];
}

/** Return the equations from the source to c_i. */
function looking(values, words, isMoved) {
  if (!values.alpha) {
    return [vector("c_i = the last forward state, at every step", values.c, "context")];
  }
  const weights = isMoved ? "α_{ij} set by hand"
    : "α_{ij} = exp e_{ij} / Σ_k exp e_{ik}";
  return [
    line(`e_{ij} = v_a · tanh(W_a s_{i−1} + U_a h_j)\n${weights}`, attention(values, words)),
    vector("c_i = Σ_j α_{ij} h_j", values.c, "context"),
  ];
}

/** The inspected step, and its view. */
const glass = {
  view: null,
  step: 0,

  async refresh() {
    const { view } = this, answer = view?.answer;
    at("glass").hidden = !answer;
    if (!answer) return;
    const last = answer.pieces.length - 1, { number, name, touched: { rows } } = view;
    this.step = Math.max(0, Math.min(last, this.step));
    const values = await rnnsearch.step(
      view.asked, answer.pieces, this.step, { model: number, rows });
    if (answer !== view.answer) return; // the sentence has changed, and has its own refresh
    const word = shownPiece(values.chosen, answer);
    at("glass-name").textContent = `${name}, step ${this.step + 1} of ${last + 1}: ${word}`;
    at("before").disabled = this.step === 0;
    at("after").disabled = this.step === last;
    const before = values.previous === null ? "none yet; its embedding is zero"
      : shownPiece(values.previous, answer);
    const [making, reading] = [update(values), output(values)];
    at("equations").replaceChildren(
      create("p", { className: "faint" }, ...typeset(ORDERS[values.order])),
      line("y_{i−1}", create("span", { textContent: before })),
      vector("e(y_{i−1})", values.y, "previous word"),
      vector("s_{i−1}", values.s, "previous state"),
      ...looking(values, answer.sourcePieces, rows[this.step] !== undefined),
      ...(values.order === "section3" ? [...making, ...reading] : [...reading, ...making]));
  },
};

/** Inspect a step of a view, and show its most likely words. */
function lookAt(view, i) {
  const step = Math.max(0, Math.min(view.answer.pieces.length - 1, i));
  Object.assign(glass, { view, step });
  view.openStep(step);
  return glass.refresh().then(() => at("glass").scrollIntoView({ block: "nearest" }));
}
