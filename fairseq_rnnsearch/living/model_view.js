/*
 * One model's answer to a sentence, and what a reader can change: a word, or the weights of a row.
 * A page with two models has two of these views.
 */
const untouched = { words: {}, rows: {} };

/** Keep the entries of an object whose numbers are below a limit. */
const entriesBelow = (limit, object) =>
  Object.fromEntries(Object.entries(object).filter(([i]) => Number(i) < limit));

/**
 * Return the place that each item of a list had in the one before, along their longest common
 * subsequence; null for an item that is not in it.
 */
function placesBefore(before, after) {
  const best = after.map(() => []), none = { length: 0 };
  const from = (i, j) => best[i]?.[j] ?? none; // the longest that begins at these places
  for (let i = after.length - 1; i >= 0; i--) {
    for (let j = before.length - 1; j >= 0; j--) {
      const rest = from(i + 1, j + 1), [below, beside] = [from(i + 1, j), from(i, j + 1)];
      best[i][j] = after[i] === before[j] ? { i, j, rest, length: rest.length + 1 }
        : below.length >= beside.length ? below : beside;
    }
  }
  const places = after.map(() => null);
  for (let one = from(0, 0); one.rest; one = one.rest) places[one.i] = one.j;
  return places;
}

class ModelView {
  touchedOf = []; // by sentence number; absent where nothing was changed
  made = ""; // what the answer was made with, see madeWith
  asked = ""; // its sentence whose matrix is shown
  warnings = []; // about the text
  line = null; // the text without its tags, see `takenOut`
  sentences = []; // of the text
  answers = []; // to all sentences of the text
  answer = null; // to the one that is shown
  marked = { parts: [], words: [], links: [] }; // the whole translation, with tags, see `putBack`
  cache = new Map(); // the answers by what was asked
  isMattering = false; // whether the matrix shows what mattered
  open = null; // the step whose likely words are shown
  active = null; // the cell or word of the matrix that is pointed at, {target, source}
  changed = { words: new Set(), rows: new Set() };

  constructor(number, { name, alignment }) {
    this.number = number;
    this.hasAttention = alignment !== "none";
    this.heading = create("h2");
    this.score = create("p", { className: "faint score" });
    this.warned = create("p", { className: "warnings", role: "status" });
    const [from, to] = facts.languages;
    this.source = create("div",
      { className: "words", role: "group", ariaLabel: "Source", lang: from });
    this.lines = svgElement("svg", { class: "lines", "aria-hidden": "true" });
    this.target = create("div",
      { className: "words", role: "group", ariaLabel: "Translation", lang: to });
    this.choices = create("div",
      { className: "choices", role: "group", ariaLabel: "Most likely words" });
    this.matrix = create("div", { className: "view" });
    this.text = create("p", { className: "translation", dir: "auto", lang: to,
      ariaLive: "polite", ariaAtomic: "true" });
    this.tree = create("div",
      { className: "scroll tree", role: "group", ariaLabel: "Beam", lang: to });
    this.beam = create("details", {}, create("summary", { textContent: "Beam search tree" }),
      create("p", { className: "faint", textContent: "Beside a word: the sum of log₂ p up to it." }),
      this.tree);
    this.beam.addEventListener("toggle", () => this.showTree());
    const pair = create("div", { className: "scroll pair" }, this.source, this.lines, this.target);
    this.root = create("section", { className: "model empty", ariaLabel: name },
      this.heading, this.text, this.score, this.warned, pair, this.choices);
    if (this.hasAttention) {
      this.heatmap = new Heatmap(this.matrix, true);
      const buttons = [this.mattering(), this.saving("png"), this.saving("svg")];
      this.matrix.append(create("div", { className: "row" }, ...buttons));
      this.root.append(this.matrix);
      this.followMatrix();
      new ResizeObserver(([{ contentRect: { width } }]) => {
        if (width !== this.width) this.redraw();
        this.width = width;
      }).observe(this.root);
    } else {
      this.root.append(create("p", { className: "faint" },
        "RNNencdec encodes the source as one vector and has no alignment."));
    }
    this.root.append(this.beam);
  }

  get name() {
    return facts.models[this.number].name;
  }

  /** What a reader has changed in the sentence that is shown. */
  get touched() {
    return this.touchedOf[shownSentence] ?? untouched;
  }

  set touched(touched) {
    this.touchedOf[shownSentence] = touched;
  }

  get isUntouched() {
    return this.touchedOf.every((touched) => touched === untouched);
  }

  /** Return what an answer was made with, besides what was touched. */
  madeWith(text, options) {
    return JSON.stringify([text, options, this.number]);
  }

  /**
   * Translate the sentences of a text again, with options and what was touched. They are sent one
   * by one, so that the worker is soon free for a text that replaces this one.
   */
  async update(text, line, sentences, given) {
    const made = this.madeWith(text, given);
    const asked = sentences.map((sentence, number) => {
      const touched = this.touchedOf[number] ?? untouched;
      const options = { model: this.number, ...given, ...touched };
      // it begins the text, or is among the words
      if (number || Object.keys(touched.words).length) options.prefix = "";
      return { key: JSON.stringify([sentence, options]), sentence, options };
    });
    for (const { key, sentence, options } of asked) {
      if (this.cache.has(key)) continue;
      if (isStale) return;
      this.cache.set(key, await rnnsearch.translate(sentence, options));
    }
    Object.assign(this, { line, sentences, answers: asked.map(({ key }) => this.cache.get(key)) });
    // drop sentences that are no longer in the text
    this.cache = new Map(asked.map(({ key }, n) => [key, this.answers[n]]));
    const warnings = await rnnsearch.warnings(line.text);
    const marked = await this.putBack(line.items.length > 0);
    if (!marked) return;
    const [answer, sentence] = [this.answers[shownSentence] ?? null, sentences[shownSentence] ?? ""];
    Object.assign(this, { made, asked: sentence, answer, marked, warnings });
    this.show();
  }

  /** Return the whole translation with its tags, and maybe its links; null if the text has changed. */
  async putBack(isLinked) {
    const { line, sentences, answers, number: model } = this;
    for (const [n, answer] of isLinked ? answers.entries() : []) {
      if (isStale) return null;
      answer.links ??= await ask("links", sentences[n], answer.text, { model });
    }
    return ask("putBack", line, answers.map(({ text }) => text), answers.map(({ links }) => links));
  }

  /** Mark the words of the translation most of whose weight is on the selected words of the source. */
  async mark() {
    const call = this.lastMark = {}, [begin, end] = await selected();
    const marked = begin < end && !this.marked.links ? await this.putBack(true) : this.marked;
    if (!marked || call !== this.lastMark) return;
    this.marked = marked;
    const isChosen = marked.words.map((word) => word.begin < end && begin < word.end);
    for (const one of this.text.querySelectorAll("[data-word]")) {
      const links = marked.links?.[one.dataset.word]?.filter((_, j) => isChosen[j]) ?? [];
      one.classList.toggle("became", links.reduce((sum, link) => sum + link, 0) > 0.5);
    }
  }

  /** Whether the matrix is to show what mattered, and that is not computed yet. */
  get lacksMattered() {
    return this.isMattering && this.answer && !this.answer.mattered;
  }

  /** Compute and show what mattered; return whether this was not cancelled. */
  async explain() {
    const { answer, asked, number: model, touched: { rows } } = this;
    answer.mattered = await rnnsearch.mattered(asked, answer.pieces, { model, rows });
    if (answer.mattered && answer === this.answer) this.show();
    return Boolean(answer.mattered);
  }

  /** Return the translations with tags, as buttons that choose a sentence where there are several. */
  translations() {
    const boxes = this.answers.map((_, number, { length }) => {
      if (length < 2) return create("span");
      const button = create("button", { type: "button", ariaPressed: String(number === shownSentence) });
      button.addEventListener("click", () => chooseSentence(number));
      return button;
    });
    for (const { text, sentence, word } of this.marked.parts) {
      boxes[sentence]?.append(word === undefined ? create("bdi", { className: "faint", textContent: text })
        : create("span", { textContent: text, data: { word } }));
    }
    return boxes.flatMap((box, number) => (number ? [" ", box] : [box]));
  }

  /** Name the text's unknown words, and reasons to doubt its translations. */
  showWarnings() {
    const doubts = this.answers.map(({ doubt }, n) => doubt
      && `doubtful${this.answers.length > 1 ? `, sentence ${n + 1}` : ""}: ${doubt}`);
    const lost = this.line.items.length && !this.marked.links
      && "the tags are lost: which words are theirs is not known";
    this.warned.textContent = [...this.warnings, ...doubts, lost].filter(Boolean).join(" · ");
    if (!this.warnings.length || !at("known")) return;
    const list = create("button", { type: "button", textContent: "Known words" });
    list.addEventListener("click", () => {
      at("known").open = true;
      at("known").scrollIntoView();
    });
    this.warned.append(list);
  }

  /** Show the answer, and return the focus to the element that replaces the focused one. */
  show() {
    const place = this.focused();
    this.showAnswer();
    place?.()?.focus();
  }

  /** Return a function that finds the chip or the sentence that has the focus; null if none has. */
  focused() {
    const one = document.activeElement, index = [...this.text.children].indexOf(one);
    if (index >= 0) return () => this.text.children[index];
    const isBelow = this.choices.contains(one) || this.tree.contains(one);
    if (!isBelow && !this.target.contains(one)) return null;
    const step = isBelow ? this.touched.chosen?.at(-1) : Number(one.dataset.step);
    return () => this.target.children[step];
  }

  showAnswer() {
    const { answer } = this;
    this.root.classList.toggle("empty", !answer);
    this.heading.textContent = this.root.ariaLabel = this.name;
    this.text.replaceChildren(...this.translations());
    this.showWarnings();
    if (!answer) return; // nothing else is visible then
    const cut = answer.isCut ? ", cut at the model's length limit" : "";
    const steps = `${answer.pieces.length} steps${cut}`;
    this.score.textContent = `score ${three(answer.score)}: the mean log₂ p of ${steps}`;
    this.source.replaceChildren(...answer.sourceTokens.map((word, j) => create("span", {
      className: answer.unknown.includes(j) ? "unknown" : "", textContent: word,
    })));
    this.target.replaceChildren(...answer.pieces.map((piece, i) => this.chip(piece, i)));
    if (this.open >= answer.pieces.length) this.open = null;
    this.showChoices();
    if (this.hasAttention) {
      const { sourceTokens: source, tokens: target, weights, mattered } = answer;
      const cell = this.active;
      const stays = this.matrix.contains(document.activeElement) && isCell(cell)
        && cell.target < target.length && cell.source < source.length;
      this.active = stays ? cell : null;
      this.heatmap.show({ source, target, weights, mattered }, this.active);
      this.markRows();
    }
    this.drawLines();
    this.showTree();
    this.mark();
  }

  showTree() {
    if (!this.beam.open || !this.answer) return;
    drawTree(this.tree, this.answer.tree, (tokens) => this.goOnFrom(tokens));
  }

  /** Return the button of one step's piece; pieces of one word stand together. */
  chip(piece, i) {
    const { hasPieces, pieces } = this.answer;
    const joins = hasPieces && pieces[i - 1]?.endsWith("@@") && piece !== END;
    const probability = this.answer.probabilities[i];
    const touched = this.isTouched(i), changed = this.changed.words.has(i);
    const classes = ["chip", joins && "joined", touched && "touched", changed && "changed"];
    const chip = create("button", {
      type: "button", className: classes.filter(Boolean).join(" "),
      textContent: shownPiece(piece, this.answer), ariaExpanded: String(this.open === i),
      title: `${piece === END ? "end of the sentence, " : ""}probability ${three(probability)}`,
      data: { step: i },
    });
    chip.style.setProperty("--probability", probability);
    chip.addEventListener("click", () => {
      if (glass.view === this) lookAt(this, i);
      else this.openStep(this.open === i ? null : i);
    });
    return chip;
  }

  /** Show the likeliest words of a step, or of none. */
  openStep(step) {
    this.open = step;
    for (const one of this.target.children) {
      one.ariaExpanded = String(Number(one.dataset.step) === step);
    }
    this.showChoices();
  }

  /**
   * Tell whether a step was changed by hand: its attention row, or the last of the forced words.
   * Earlier forced words are the model's own, except at another checkpoint of the training run.
   */
  isTouched(i) {
    const { words, rows, chosen, number } = this.touched;
    const isForced = words[i] !== undefined && number !== this.number;
    return rows[i] !== undefined || isForced || chosen?.includes(i);
  }

  /** Show the likeliest words of the open step as buttons. */
  showChoices() {
    const i = this.open;
    if (i === null || !this.answer) return this.choices.replaceChildren();
    const chosen = this.answer.pieces[i];
    const buttons = this.answer.alternatives[i].map(([token, probability]) => {
      const button = create("button", {
        type: "button", className: "choice-of-word", disabled: token === chosen,
      }, create("span", { textContent: listed(token), lang: facts.languages[1] }),
      create("small", { textContent: probability.toFixed(3) }));
      button.style.setProperty("--probability", probability);
      button.addEventListener("click", () =>
        this.goOnFrom([...this.answer.pieces.slice(0, i), token], this.touchedBefore(i).chosen));
      return button;
    });
    const inspect = create("button", { type: "button", textContent: "Inspect this step" });
    inspect.addEventListener("click", () => lookAt(this, i));
    const name = create("span", { className: "faint", textContent: "Most likely here:" });
    this.choices.replaceChildren(name, ...buttons, inspect);
  }

  // --- touching ----------------------------------------------------------------------------------

  /** Return the words before a step as forced words, and the changes made before it. */
  touchedBefore(step) {
    const { pieces } = this.answer;
    return {
      words: Object.fromEntries(pieces.slice(0, step).map((piece, i) => [i, piece])),
      rows: entriesBelow(step, this.touched.rows),
      chosen: (this.touched.chosen ?? []).filter((i) => i < step),
    };
  }

  /** Translate again, starting with these tokens, of which the last one is chosen now. */
  goOnFrom(tokens, chosen = []) {
    this.touch({
      words: { ...tokens },
      rows: entriesBelow(tokens.length, this.touched.rows),
      chosen: [...chosen, tokens.length - 1],
    });
  }

  /** Change the rows of a word by a function of a row and the columns of each source word. */
  changeRow(word, change) {
    const { belongs, stepWeights } = this.answer;
    const steps = [...belongs.target.keys()].filter((i) => belongs.target[i] === word);
    const columns = this.answer.sourceTokens.map((_, j) =>
      [...belongs.source.keys()].filter((k) => belongs.source[k] === j));
    const { words, rows, chosen } = this.touchedBefore(steps[0]);
    const forced = this.touched.chosen?.includes(steps[0]);
    for (const i of steps) rows[i] = change([...stepWeights[i]], columns);
    this.touch({
      words: forced ? { ...words, [steps[0]]: this.answer.pieces[steps[0]] } : words,
      rows,
      chosen: forced ? [...chosen, steps[0]] : chosen,
    });
  }

  /** Move a share of other columns' weight to one source word, in proportion to its pieces' own. */
  moveWeight(word, from, to, share = 1) {
    this.changeRow(word, (row, columns) => {
      const target = columns[to], before = target.reduce((sum, k) => sum + row[k], 0);
      const others = [...row.keys()].filter((k) => !target.includes(k));
      const givers = from === null ? others : columns[from];
      let moved = 0;
      for (const k of givers) {
        moved += share * row[k];
        row[k] *= 1 - share;
      }
      for (const k of target) row[k] += moved * (before ? row[k] / before : 1 / target.length);
      return row;
    });
  }

  async touch(touched) {
    const before = this.answer;
    if (this.made !== this.madeWith(at("sentence").value, given())) return; // outdated
    past.push({ view: this, sentence: shownSentence, touched: this.touched });
    touched.number = this.number;
    this.touched = touched;
    await refresh();
    if (this.touched === touched) this.markChanges(before); // unless the sentence has changed
  }

  /** Mark the words and the rows that have changed. */
  markChanges(before) {
    const { answer } = this;
    if (!answer || !before) return;
    const places = placesBefore(before.pieces, answer.pieces);
    this.changed.words = new Set([...places.keys()].filter((i) => places[i] === null));
    const differs = (row, word) => {
      const first = answer.belongs.target.indexOf(word);
      // a new word may have the row of the word that it replaced
      const old = before.weights[before.belongs.target[places[first] ?? first]];
      return !old || row.some((weight, j) => Math.abs(weight - (old[j] ?? 0)) >= 0.01);
    };
    const rows = this.hasAttention ? answer.weights.map(differs) : [];
    this.changed.rows = new Set([...rows.keys()].filter((i) => rows[i]));
    this.show();
  }

  forget() {
    this.touchedOf = [];
    this.turn();
  }

  /** Close what is open for a sentence before another one is shown. */
  turn() {
    this.open = null;
    this.forgetChanges();
  }

  forgetChanges() {
    this.changed = { words: new Set(), rows: new Set() };
  }

  // --- the matrix and the lines ------------------------------------------------------------------

  /** Return a button that shows what mattered instead of weights; only then is it computed. */
  mattering() {
    this.matteringButton = create("button", { type: "button", textContent: "What mattered",
      ariaPressed: "false", title: "how far the probability of each target word falls when a"
        + " source word is removed" });
    this.matteringButton.addEventListener("click", () => {
      this.setMattering(!this.isMattering);
      explain();
    });
    return this.matteringButton;
  }

  /** Show what mattered, once it is computed, or weights. */
  setMattering(isMattering) {
    this.isMattering = isMattering;
    this.matteringButton.ariaPressed = String(isMattering);
    this.heatmap.set({ mode: isMattering ? "mattered" : "soft" });
    if (this.answer) this.markRows();
  }

  /** Return a button that saves the matrix, as "png" or "svg". */
  saving(kind) {
    const button = create("button", { type: "button", textContent: `Save ${kind.toUpperCase()}` });
    button.addEventListener("click", async () => {
      const name = `alignment-${shownSentence + 1}.${kind}`;
      download(await fileOf(this.heatmap.draw("#000", "#fff"), kind), name);
      at("status").textContent = `${name} saved`;
    });
    return button;
  }

  /** Redraw what depends on sizes. */
  redraw() {
    if (!this.answer) return;
    if (this.hasAttention) {
      this.heatmap.set({});
      this.markRows();
    }
    this.drawLines();
  }

  /** Let a reader move weight within a row, by dragging or with keys. */
  followMatrix() {
    let held = null;
    this.matrix.addEventListener("activate", ({ detail }) => { this.active = detail; });
    this.matrix.addEventListener("pointerdown", () => {
      held = isCell(this.active) ? { ...this.active } : null;
      this.matrix.classList.toggle("held", held !== null);
    });
    this.matrix.addEventListener("pointermove", () => {
      if (held) this.drawMove(held, this.active?.source ?? held.source);
    });
    const letGo = (event) => {
      const { target, source } = held ?? {}, to = this.active?.source;
      const moves = held && event.type === "pointerup" && to !== undefined && to !== source;
      held = null;
      this.matrix.classList.remove("held");
      this.matrix.querySelector(".move")?.remove();
      if (moves) this.moveWeight(target, source, to);
    };
    for (const kind of ["pointerup", "pointercancel", "pointerleave"]) {
      this.matrix.addEventListener(kind, letGo);
    }
    this.matrix.addEventListener("keydown", (event) => {
      const share = { Enter: 1, "+": 0.1 }[plainKey(event)], { active } = this;
      if (!event.target.matches(".matrix")) return; // a button has keys of its own
      if (share && isCell(active)) this.moveWeight(active.target, null, active.source, share);
    });
  }

  /** Draw an arrow from the dragged cell to the column that would get its weight. */
  drawMove({ target, source }, to) {
    const svg = this.matrix.querySelector(".matrix svg");
    svg.querySelector(".move")?.remove();
    const ground = svg.querySelector("rect"), cell = ground.width.baseVal.value
      / this.answer.sourceTokens.length;
    const x = (column) => ground.x.baseVal.value + (column + 0.5) * cell;
    const y = ground.y.baseVal.value + (target + 0.5) * cell;
    const tip = x(to) - Math.sign(to - source) * cell * 0.2;
    svg.append(svgElement("path", {
      class: "move", d: `M${x(source)} ${y}H${x(to)}M${tip} ${y - 4}L${x(to)} ${y}L${tip} ${y + 4}`,
    }));
  }

  markRows() {
    const { belongs } = this.answer;
    const touched = new Set(Object.keys(this.touched.rows).map((i) => belongs.target[i]));
    for (const one of this.matrix.querySelectorAll(".label[data-side=target]")) {
      const word = Number(one.dataset.index);
      one.classList.toggle("touched", touched.has(word));
      one.classList.toggle("changed", this.changed.rows.has(word));
    }
  }

  /** Draw a line from each source word to each word of the translation, as strong as its weight. */
  drawLines() {
    this.lines.replaceChildren();
    const { answer } = this;
    if (!answer?.weights) return;
    const box = this.lines.getBoundingClientRect();
    const middle = (element) => {
      const { left, width } = element.getBoundingClientRect();
      return left + width / 2 - box.left;
    };
    const top = [...this.source.children].map(middle);
    const chips = [...this.target.children].map(middle);
    const bottom = answer.tokens.map((_, word) => {
      const places = chips.filter((_, i) => answer.belongs.target[i] === word);
      return places.reduce((sum, x) => sum + x, 0) / places.length;
    });
    answer.weights.forEach((row, i) => row.forEach((weight, j) => {
      if (weight < 0.05) return;
      this.lines.append(svgElement("line", {
        x1: top[j].toFixed(1), y1: 2, x2: bottom[i].toFixed(1), y2: box.height - 2,
        "stroke-opacity": weight.toFixed(3), "stroke-width": (1 + 2.5 * weight).toFixed(2),
        class: this.changed.rows.has(i) ? "changed" : "",
      }));
    }));
  }
}
