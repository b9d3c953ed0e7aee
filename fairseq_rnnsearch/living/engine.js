"use strict";
/*
 * Answers the page's requests, in the terms of `load()` and its results.
 *
 * Runs in Node, and in a worker that the page makes from its own text. Target positions are counted
 * in the model's steps, which are subword pieces where it has them; `words` and `rows` of the
 * options `touched` name such positions.
 */
const END = "</s>", EXAMPLES = 5; // of unknown words

/** Return the words of pieces, and the number of the word that each piece belongs to. */
function joinedPieces(pieces, { hasPieces }) {
  const words = [], belongs = [];
  let joined = false;
  for (const piece of pieces) {
    const continues = hasPieces && piece.endsWith("@@"), text = continues ? piece.slice(0, -2) : piece;
    if (joined && piece !== END) words[words.length - 1] += text;
    else words.push(text);
    belongs.push(words.length - 1);
    joined = continues;
  }
  return { words: words.map(shown), belongs };
}

/** Merge pieces to words by sums over the pieces of both. */
function mergedPieces(rows, source, target) {
  const merged = target.words.map(() => new Array(source.words.length).fill(0));
  rows.forEach((row, i) => row.forEach((value, j) => {
    merged[target.belongs[i]][source.belongs[j]] += value;
  }));
  return merged;
}

/** Merge pieces to words: sums over the source's pieces, means over the target's. */
function mergedWeights(weights, source, target) {
  const pieces = target.words.map((_, i) => target.belongs.filter((word) => word === i).length);
  return mergedPieces(weights, source, target)
    .map((row, i) => row.map((weight) => weight / pieces[i]));
}

/** Return a function that does what html.unescape of Python does, from a table of what it knows. */
function unescaper(table) {
  const names = Object.keys(table).sort().reverse().join("|"); // the longest first
  const pattern = new RegExp(`&(?:#[xX]([0-9a-fA-F]+);?|#([0-9]+);?|(${names}))`, "gu");
  return (text) => text.replace(pattern, (_, hex, digits, name) => {
    const code = hex ? parseInt(hex, 16) : Number(digits), isNone = code > 0x10ffff;
    return table[name ?? `#${code}`] ?? String.fromCodePoint(isNone ? 0xfffd : code).toWellFormed();
  });
}

/** Return the first reason to doubt a translation, or null; see commands/doubt.py. */
function doubtOf(source, text, [before, after], isKnown, bits, [shortest, leastBits], rules) {
  const repeated = new RegExp(rules.repeated, "su");
  const repeats = (one) => repeated.test(` ${words(one.toLowerCase()).join(" ")} `);
  const withinNumbers = /([0-9])[ ,.'’\u00a0\u202f](?=[0-9])/g;
  const [joinedSource, joinedText] = [source, text].map((one) => one.replace(withinNumbers, "$1"));
  const found = [
    !isKnown,
    after < (before >= rules.enough ? shortest * before : Math.min(before, 1)),
    repeats(text) && !repeats(source),
    (joinedSource.match(/[0-9]+/g) ?? []).some((number) => !joinedText.includes(number)),
    bits < leastBits && before > 0,
  ];
  return rules.reasons[found.indexOf(true)] ?? null;
}

class Dictionary {
  constructor(symbols) {
    this.symbols = symbols;
    this.numbers = new Map(symbols.map((symbol, number) => [symbol, number]));
  }

  /** Return the number of a token that a text has; one like a special symbol is unknown. */
  number(token) {
    const number = this.numbers.get(token) ?? SPECIAL.unknown;
    return number > SPECIAL.unknown ? number : SPECIAL.unknown;
  }

  /** Return tokens' numbers and the end symbol's. */
  sentence(tokens) {
    return [...tokens.map((token) => this.number(token)), SPECIAL.end];
  }
}

class Engine {
  /** Take what living_page.py has stored. */
  constructor(stored) {
    const merges = stored.merges.map((text) => text.split("\n"));
    const textOf = ({ text, symbols }) => new PlainText(text, merges[text.merges], symbols);
    this.sourceText = textOf(stored.source);
    this.targetText = textOf(stored.target);
    this.source = new Dictionary(stored.source.symbols);
    this.target = new Dictionary(stored.target.symbols);
    this.language = stored.source.language;
    this.models = stored.models;
    this.doubt = stored.doubt;
    this.unescaped = unescaper(stored.entities);
    this.networks = []; // each is made when it is first asked for
    this.cancelled = 0; // how often cancel() was called
  }

  /** Return the sentences of a text, which the model translates one by one. */
  sentences(text) {
    return sentencesOf(text);
  }

  /** Return a warning that counts and names a text's unknown words, as in text/coverage.py. */
  warnings(text) {
    const unknown = [];
    let count = 0;
    for (const sentence of sentencesOf(text)) {
      const tokens = this.sourceText.tokens(sentence);
      const { words, belongs } = joinedPieces(tokens, this.sourceText);
      unknown.push(...this.unknownWords(tokens, belongs).map((j) => words[j]));
      count += words.length;
    }
    if (!unknown.length) return [];
    const names = [...new Set(unknown)], such = names.length > EXAMPLES ? ", such as" : ":";
    return [`${unknown.length.toLocaleString("en")} of ${count.toLocaleString("en")} `
      + `${this.language} word${count === 1 ? "" : "s"} ${unknown.length === 1 ? "is" : "are"} `
      + `unknown${such} ${names.slice(0, EXAMPLES).join(", ")}`];
  }

  /** Return the places of unknown words, of which each may have several unknown pieces. */
  unknownWords(pieces, belongs) {
    const isUnknown = (place) => this.source.number(pieces[place]) === SPECIAL.unknown;
    return [...new Set([...pieces.keys()].filter(isUnknown).map((place) => belongs[place]))];
  }

  /** Take the tags out of a text; see tags.js. */
  takenOut(text, isMarkup = true) {
    return isMarkup ? takenOut(text, this.unescaped) : { text, items: [], isHtml: false };
  }

  /** Return the words of a sentence and its translation, and posterior weights; null if there are none. */
  links(text, translation, options = {}) {
    const { network, pieces, sentence } = this.begin(text, options), weights = [];
    if (!network.hasAttention) return null;
    const tokens = this.targetText.tokens(translation), numbers = this.target.sentence(tokens);
    forced(network, sentence, numbers, { words: {}, rows: {} }, (i, looked, source) => {
      weights.push(network.posterior(looked, numbers[i - 1] ?? null, source, numbers[i]));
    });
    const joined = this.joined(pieces, [...tokens, END]);
    const [source, target] = [this.sourceText, this.targetText].map((plain, side) =>
      joined[side].words.slice(0, -1).map((word) => words(plain.join([word])).join("")));
    const rows = mergedWeights(weights, ...joined).slice(0, -1).map((row) => row.slice(0, -1));
    return { source, target, weights: rows };
  }

  /**
   * Join the translations of a text's sentences: `parts` {text, sentence, word} with the text's
   * tags, and the `links` of these words to `words` of the text. If one has no links, there are neither.
   */
  putBack(line, translations, given) {
    const target = translations.join(" "), words = wordsIn(target), ofSource = wordsIn(line.text);
    const known = given.every(Boolean) ? given : [], joined = (side) => known.flatMap((one) => one[side]);
    const weights = known.flatMap((one, n) => one.weights.map((row) =>
      known.flatMap((other, m) => (m === n ? row : other.source.map(() => 0)))));
    const links = linksOf(words, ofSource, { source: joined("source"), target: joined("target"), weights });
    const items = links ? line.items : [], begins = summed(translations.map(({ length }) => length + 1));
    const parts = putBack({ ...line, items }, { ofSource, target, words, links });
    for (const part of parts) {
      const isBetween = part.word < 0 && begins.includes(part.at + 1); // sentences
      part.sentence = isBetween ? null : begins.findLastIndex((begin) => begin <= part.at);
    }
    return { parts, words: ofSource, links };
  }

  /** Translate a sentence; see the manual for the options and the answer. */
  translate(text, options = {}) {
    const beam = options.beam ?? 5;
    if (!Number.isInteger(beam) || beam < 1 || beam > 12) {
      throw new RangeError(`beam ${beam}: must be a whole number from 1 to 12`);
    }
    const { network, pieces, sentence } = this.begin(text, options);
    if (pieces.length === 1) { // no words, hence an empty translation
      return { ...this.force(text, "", options), isCut: false, doubt: null, nbest: [], tree: [] };
    }
    const { hypotheses, nodes } = beamSearch(network, sentence, {
      beam,
      lenpen: options.lenpen ?? 1,
      forbidUnknown: options.forbidUnknown ?? false,
      touched: this.touched(options, pieces.length),
    });
    const [best] = hypotheses;
    if (!best) throw new RangeError("no translation can contain these words: one is never chosen");
    const nbest = hypotheses.map((one) => ({
      text: this.targetText.text(this.tokens(one).slice(0, -1)), score: one.score / Math.LN2,
    })).filter(({ text: found }, n, all) => all.findIndex((one) => one.text === found) === n);
    const tree = nodes.map(({ word, parent, logp, score }, number) => ({
      token: this.target.symbols[word],
      parent,
      probability: Math.exp(logp),
      score: score / Math.LN2,
      isBest: best.path.includes(number),
    }));
    const isCut = best.words.length > network.longest(pieces.length);
    const answer = this.answer(pieces, best, nbest[0].text);
    const bits = best.logp.reduce((sum, one) => sum + one, 0) / best.logp.length / Math.LN2;
    const sizes = [pieces.length - 1, best.words.length - 1], isKnown = !answer.unknown.length;
    const { doubt: limits } = this.models[options.model ?? 0];
    const doubt = doubtOf(text, answer.text, sizes, isKnown, bits, limits, this.doubt);
    return { ...answer, isCut, doubt, nbest, tree };
  }

  /** Score a given translation, with the weights of each step. */
  force(text, translation, options = {}) {
    const { network, pieces, sentence } = this.begin(text, options);
    const target = this.target.sentence(this.targetText.tokens(translation));
    const hypothesis = forced(network, sentence, target, this.touched(options, pieces.length));
    return this.answer(pieces, hypothesis, translation);
  }

  /**
   * Return all that is computed at one step of a translation, which is given as its steps' tokens.
   */
  step(text, tokens, i, options = {}) {
    const { network, target, follow } = this.given(text, tokens, options);
    if (!(i in tokens)) throw new RangeError(`step ${i}: must be from 0 to ${tokens.length - 1}`);
    let seen;
    follow((at, looked) => {
      if (at === i) seen = looked;
    });
    const { order } = network.options;
    const update = order === "program" ? network.updateWith(seen, [0], [target[i]]) : seen.update;
    const plain = (vector) => vector && Array.from(vector);
    const values = Object.fromEntries(Object.entries(update).map(([k, v]) => [k, plain(v)]));
    return {
      order,
      previous: i ? tokens[i - 1] : null,
      chosen: tokens[i],
      ...Object.fromEntries(["s", "energies", "alpha", "c", "y", "read", "sum", "t"]
        .map((name) => [name, plain(seen[name])])),
      update: values,
      likeliest: this.named(likeliest(seen.logp, network.words, 1)[0]),
    };
  }

  /**
   * Return `Translation.mattered` of a translation that is given as its steps' tokens; null for
   * RNNencdec, and when `cancel` is called. Other calls are answered between two steps.
   */
  async mattered(text, tokens, options = {}) {
    const { network, pieces, target, follow } = this.given(text, tokens, options);
    if (!network.hasAttention) return null;
    const { cancelled } = this, steps = [], rows = [];
    follow((i, looked, source) => steps.push([looked, target[i - 1] ?? null, source, target[i]]));
    for (const given of steps) {
      await new Promise((resolve) => { setTimeout(resolve); });
      if (this.cancelled !== cancelled) return null;
      rows.push(network.effects(...given));
    }
    return mergedPieces(rows, ...this.joined(pieces, tokens));
  }

  /** End every computation of what mattered. */
  cancel() {
    this.cancelled += 1;
  }

  /** Return a function that goes through a translation, given as its steps' tokens; see `forced`. */
  given(text, tokens, options) {
    const { network, pieces, sentence } = this.begin(text, options);
    const touched = this.touched(options, pieces.length);
    const target = tokens.map((token) => this.stepNumber(token));
    const follow = (visit) => forced(network, sentence, target, touched, visit);
    return { network, pieces, target, follow };
  }

  network(model) {
    const last = this.models.length - 1;
    if (!this.models[model]) throw new RangeError(`model ${model}: must be from 0 to ${last}`);
    const { tensors, options, limit } = this.models[model];
    return this.networks[model]
      ??= new Network(new Parameters(tensors, new Products()), options, limit);
  }

  begin(text, { model = 0 }) {
    if (typeof text !== "string") throw new TypeError("a sentence must be a string");
    const network = this.network(model);
    const tokens = this.sourceText.tokens(text);
    return { network, pieces: [...tokens, END], sentence: this.source.sentence(tokens) };
  }

  /** Return the reader's changes, with numbers for tokens. */
  touched({ prefix = "", words: chosen = {}, rows = {} }, positions) {
    const given = { ...this.targetText.tokens(prefix), ...chosen };
    const numbers = Object.entries(given).map(([i, token]) => [i, this.stepNumber(token)]);
    for (const [i, row] of Object.entries(rows)) {
      const isRow = row.length === positions && row.every((weight) => weight >= 0);
      if (!isRow) throw new RangeError(`rows ${i}: must be ${positions} numbers of 0 or more`);
    }
    return { words: Object.fromEntries(numbers), rows };
  }

  /** Return the number of a token, special or not, that a step may choose. */
  stepNumber(token) {
    const number = this.target.numbers.get(token);
    if (number === undefined) throw new RangeError(`${token} is not in the target dictionary`);
    return number;
  }

  tokens({ words: numbers }) {
    return numbers.map((number) => this.target.symbols[number]);
  }

  named(best) {
    return best.map(([number, logp]) => [this.target.symbols[number], Math.exp(logp)]);
  }

  /** Return the words of both sides' pieces. */
  joined(source, target) {
    return [joinedPieces(source, this.sourceText), joinedPieces(target, this.targetText)];
  }

  answer(sourcePieces, hypothesis, text) {
    const pieces = this.tokens(hypothesis);
    const [source, target] = this.joined(sourcePieces, pieces);
    const rows = hypothesis.steps.map(({ alpha }) => alpha && Array.from(alpha));
    const stepWeights = rows[0] ? rows : null; // RNNencdec has none
    return {
      text,
      tokens: target.words,
      sourceTokens: source.words,
      score: hypothesis.score / Math.LN2,
      weights: stepWeights && mergedWeights(stepWeights, source, target),
      alternatives: hypothesis.steps.map((step) => this.named(step.likeliest.slice(0, 5))),
      // in the model's steps
      pieces,
      hasPieces: this.targetText.hasPieces,
      sourcePieces,
      stepWeights,
      belongs: { target: target.belongs, source: source.belongs },
      unknown: this.unknownWords(sourcePieces.slice(0, -1), source.belongs),
      probabilities: hypothesis.logp.map(Math.exp),
    };
  }
}

/** Answer the page's messages, when this is a worker. */
function serve(scope) {
  let engine;
  scope.onmessage = async ({ data: { id, call, given } }) => {
    try {
      if (call === "load") engine = new Engine(JSON.parse(given[0]));
      const value = call === "load" ? null : await engine[call](...given);
      scope.postMessage({ id, value });
    } catch (error) {
      scope.postMessage({ id, error: error.message });
    }
  };
}
