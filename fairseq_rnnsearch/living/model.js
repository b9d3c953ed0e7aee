"use strict";
/*
 * RNNsearch and RNNencdec as in paper/equations and network, equation by equation.
 *
 * A vector is a Float32Array; several of them (the hypotheses of a beam, the words of a sentence)
 * stand one after the other in one array. Names are the paper's; the manual's glossary joins them
 * to those of the options. `options` are the architecture's:
 *
 *   order        program | appendix | section3
 *   alignment    additive | none (RNNencdec)
 */

// --- vectors -------------------------------------------------------------------------------------

const TINY = 2 ** -126; // the smallest normal number
const sigmoid = (a) => 1 / (1 + Math.exp(-a));

/** Return the parts of several vectors side by side: `split(x, 3, n)` is [x, x_z, x_r]. */
function split(x, parts, size) {
  const vectors = x.length / (parts * size);
  return Array.from({ length: parts }, (_, part) => {
    const values = new Float32Array(vectors * size);
    for (let v = 0; v < vectors; v++) {
      const start = (v * parts + part) * size;
      values.set(x.subarray(start, start + size), v * size);
    }
    return values;
  });
}

/** Add vectors, or a single bias to each of several vectors, in place. */
function plus(x, ...others) {
  for (const other of others) {
    for (let start = 0; start < x.length; start += other.length) {
      for (let k = 0; k < other.length; k++) x[start + k] += other[k];
    }
  }
  return x;
}

/** Select vectors of a size by their numbers. */
function gather(x, size, numbers) {
  const selected = new Float32Array(numbers.length * size);
  numbers.forEach((from, to) => {
    selected.set(x.subarray(from * size, (from + 1) * size), to * size);
  });
  return selected;
}

/** Return the logarithms of the softmax of each of several vectors of logits. */
function logSoftmax(logits, size) {
  const logp = new Float32Array(logits.length);
  for (let start = 0; start < logits.length; start += size) {
    let largest = -Infinity, sum = 0;
    for (let k = start; k < start + size; k++) if (logits[k] > largest) largest = logits[k];
    for (let k = start; k < start + size; k++) sum += Math.exp(logits[k] - largest);
    const log = largest + Math.log(sum);
    for (let k = start; k < start + size; k++) logp[k] = logits[k] - log;
  }
  return logp;
}

// --- word embedding ------------------------------------------------------------------------------

/** e(w) = E w + b, and the zero vector for y_0, the word before the first: null. */
class Embedding {
  constructor(parameters) {
    this.E = parameters.rows("weight");
    this.b = parameters.vector("bias");
    this.size = this.b.length;
  }

  of(words) {
    const { size } = this, embedded = new Float32Array(words.length * size);
    words.forEach((word, place) => {
      if (word === null) return;
      const row = this.E(word);
      for (let k = 0; k < size; k++) embedded[place * size + k] = row[k] + this.b[k];
    });
    return embedded;
  }
}

// --- units ---------------------------------------------------------------------------------------

/**
 * The gated hidden unit (appendix A.1.1); x is W e(word) with the bias, and in the decoder C c_i.
 *
 *   z = sigma(x_z + U_z h)          update gate
 *   r = sigma(x_r + U_r h)          reset gate
 *   h~ = tanh(x + U [r o h])        proposed state
 *   h' = (1 - z) o h + z o h~       new state
 */
class GatedUnit {
  constructor(parameters) {
    this.W = parameters.matrix("input_weight"); // W, W_z, W_r
    this.U_zr = parameters.matrix("recurrent_gates");
    this.U = parameters.matrix("recurrent_proposed");
    this.C = parameters.matrix("context_weight"); // C, C_z, C_r; null in the encoder
    this.n = this.U.rows;
    this.b = new Float32Array(3 * this.n);
    this.b.set(parameters.vector("input_bias"));
    this.multiply = parameters.multiply;
  }

  /** Return the new states and what led to them, from inputs and states of several vectors. */
  step(inputs, h) {
    const { n } = this, [x, x_z, x_r] = split(inputs, 3, n);
    const [of_z, of_r] = split(this.multiply(this.U_zr, h), 2, n);
    const z = plus(of_z, x_z).map(sigmoid);
    const r = plus(of_r, x_r).map(sigmoid);
    const proposed = plus(this.multiply(this.U, r.map((gate, k) => gate * h[k])), x).map(Math.tanh);
    const state = h.map((before, k) => (1 - z[k]) * before + z[k] * proposed[k]);
    return { state, r, z, proposed };
  }
}

// --- the alignment model -------------------------------------------------------------------------

/** How well each source position matches the target word to come, for several states. */
class AlignmentModel {
  constructor(parameters) {
    this.multiply = parameters.multiply;
    this.U_a = parameters.matrix("annotation_weight");
    this.W_a = parameters.matrix("state_weight");
    this.v_a = parameters.vector("energy_weight");
  }

  /** Return what is computed once for a sentence: U_a h. */
  keys(annotations) {
    return this.multiply(this.U_a, annotations);
  }

  /** Return e_ij = v_a . tanh(W_a s_{i-1} + U_a h_j) of all source positions for each state. */
  energies(s, keys, positions) {
    const of_s = this.multiply(this.W_a, s);
    const size = keys.length / positions, states = of_s.length / size;
    const e = new Float32Array(states * positions);
    for (let v = 0; v < states; v++) {
      for (let j = 0; j < positions; j++) {
        let sum = 0;
        for (let k = 0; k < size; k++) {
          sum += this.v_a[k] * Math.tanh(of_s[v * size + k] + keys[j * size + k]);
        }
        e[v * positions + j] = sum;
      }
    }
    return e;
  }
}

/** c_i = sum_j alpha_ij h_j, for the weights of several states. */
function expectedAnnotation(alpha, h, positions) {
  const size = h.length / positions, states = alpha.length / positions;
  const c = new Float32Array(states * size);
  for (let v = 0; v < states; v++) {
    for (let j = 0; j < positions; j++) {
      const weight = alpha[v * positions + j];
      for (let k = 0; k < size; k++) c[v * size + k] += weight * h[j * size + k];
    }
  }
  return c;
}

/** Return a row of weights without each position in turn, the others scaled to sum to one. */
function withoutEach(alpha) {
  const positions = alpha.length, rows = new Float32Array(positions ** 2);
  const kept = Array.from(alpha, (weight) => Math.max(weight, TINY));
  for (let j = 0; j < positions; j++) {
    const total = kept.reduce((sum, weight, k) => (k === j ? sum : sum + weight), 0);
    kept.forEach((weight, k) => { if (k !== j) rows[j * positions + k] = weight / total; });
  }
  return rows;
}

// --- the network ---------------------------------------------------------------------------------

class Network {
  /** Build it from a source of parameters by their names in a checkpoint (see weights.js). */
  constructor(parameters, options, limit) {
    const encoder = parameters.of("encoder."), decoder = parameters.of("decoder.");
    this.options = options;
    this.limit = limit; // of a translation's length: tokens for each source token, and further ones
    this.multiply = parameters.multiply;
    this.sourceEmbedding = new Embedding(encoder.of("embedding."));
    this.forwardUnit = new GatedUnit(encoder.of("forward_unit."));
    this.hasAttention = options.alignment !== "none";
    this.backwardUnit = this.hasAttention ? new GatedUnit(encoder.of("backward_unit.")) : null;
    this.targetEmbedding = new Embedding(decoder.of("embedding."));
    this.W_s = decoder.matrix("initial_weight");
    this.b_s = decoder.vector("initial_bias");
    this.unit = new GatedUnit(decoder.of("unit."));
    this.alignmentModel = this.hasAttention
      ? new AlignmentModel(decoder.of("alignment_model.")) : null;
    this.U_o = decoder.matrix("readout.state_weight");
    this.V_o = decoder.matrix("readout.word_weight");
    this.C_o = decoder.matrix("readout.context_weight");
    this.b = decoder.vector("readout.bias");
    this.W_inner = decoder.matrix("output.inner_weight"); // null where W_o is one matrix
    this.W_o = decoder.matrix("output.weight");
    this.b_o = decoder.vector("output.bias");
    this.words = this.b_o.length;
  }

  /** Return how many words a translation may have before its end symbol. */
  longest(positions) {
    const [ratio, margin] = this.limit;
    return Math.floor(ratio * positions + margin);
  }

  /** Run a unit over a sentence; return its hidden states in the order of the words. */
  recurrence(unit, embedded, positions, backwards) {
    const inputs = plus(this.multiply(unit.W, embedded), unit.b);
    const size = inputs.length / positions, states = new Float32Array(positions * unit.n);
    let state = new Float32Array(unit.n);
    for (let step = 0; step < positions; step++) {
      const j = backwards ? positions - 1 - step : step;
      ({ state } = unit.step(inputs.subarray(j * size, (j + 1) * size), state));
      states.set(state, j * unit.n);
    }
    return states;
  }

  /** Encode word numbers, the end symbol included (section 3.2, appendix A.2.1). */
  encode(words) {
    const positions = words.length, embedded = this.sourceEmbedding.of(words);
    const forward = this.recurrence(this.forwardUnit, embedded, positions, false);
    const { n } = this.forwardUnit;
    let annotations = null, keys = null, summary = forward.slice(-n); // the last forward state
    if (this.hasAttention) {
      const backward = this.recurrence(this.backwardUnit, embedded, positions, true);
      annotations = new Float32Array(2 * n * positions);
      for (let j = 0; j < positions; j++) {
        annotations.set(forward.subarray(j * n, (j + 1) * n), 2 * n * j);
        annotations.set(backward.subarray(j * n, (j + 1) * n), 2 * n * j + n);
      }
      keys = this.alignmentModel.keys(annotations);
      summary = backward.slice(0, n); // the backward state of the first word
    }
    const s_0 = plus(this.multiply(this.W_s, summary), this.b_s).map(Math.tanh);
    return { positions, annotations, keys, summary, state: s_0 };
  }

  /**
   * Look for the next word: c_i = attend(s_{i-1}), and p(y_i) from s_{i-1} or s_i.
   *
   * Takes the states of several hypotheses, the words before (null before the first one), the
   * encoded source, and weights that replace alpha_i for all of them, or null.
   * Returns all that was computed. `next` are the states s_i, or null in the program's order, in
   * which s_i reads y_i.
   */
  look(s, previous, source, row = null) {
    const attended = this.attend(s, source, previous.length, row);
    return { ...attended, ...this.read(s, previous, attended.c) };
  }

  /** Compute p(y_i) from the states, the words before and the contexts. */
  read(s, previous, c) {
    const { order } = this.options, y = this.targetEmbedding.of(previous);
    const update = order === "program" ? null : this.update(s, y, c);
    const read = order === "section3" ? update.state : s;
    const sum = plus(this.multiply(this.U_o, read), this.multiply(this.V_o, y),
      this.multiply(this.C_o, c), this.b); // t~_i = U_o s + V_o e(y_{i-1}) + C_o c_i + b
    const t = new Float32Array(sum.length / 2); // the larger of each pair
    for (let j = 0; j < t.length; j++) t[j] = Math.max(sum[2 * j], sum[2 * j + 1]);
    const inner = this.W_inner ? this.multiply(this.W_inner, t) : t;
    const logits = plus(this.multiply(this.W_o, inner), this.b_o); // W_o t + b_o
    const logp = logSoftmax(logits, this.words);
    return { s, y, update, read, sum, t, logp };
  }

  /** Return log p of a word at a step that `look` has returned, with each of `positions` contexts. */
  reread({ s }, previous, c, { positions }, word) {
    const { words } = this, copies = gather(s, s.length, new Array(positions).fill(0));
    const { logp } = this.read(copies, new Array(positions).fill(previous), c);
    return Array.from({ length: positions }, (_, j) => logp[j * words + word]);
  }

  /**
   * Return how much log p of a word falls without each source position in turn
   * (engine_networks.attribution).
   */
  effects(looked, previous, source, word) {
    const c = expectedAnnotation(withoutEach(looked.alpha), source.annotations, source.positions);
    return this.reread(looked, previous, c, source, word).map((logp) => looked.logp[word] - logp);
  }

  /** Return the weights that take account of the word (engine_networks.scored). */
  posterior(looked, previous, source, word) {
    const alone = this.reread(looked, previous, source.annotations, source, word);
    const logs = alone.map((logp, j) => logp + Math.log(looked.alpha[j]));
    return Array.from(logSoftmax(Float32Array.from(logs), logs.length), Math.exp);
  }

  attend(s, source, hypotheses, row) {
    const { positions } = source;
    if (!this.hasAttention) { // RNNencdec: always the last forward state
      const c = gather(source.summary, source.summary.length, new Array(hypotheses).fill(0));
      return { energies: null, alpha: null, c };
    }
    const energies = this.alignmentModel.energies(s, source.keys, positions);
    const alpha = row ? gather(Float32Array.from(row), positions, new Array(hypotheses).fill(0))
      : logSoftmax(energies, positions).map(Math.exp);
    return { energies, alpha, c: expectedAnnotation(alpha, source.annotations, positions) };
  }

  /** s_i = f(s_{i-1}, y, c_i), with what led to it. */
  update(s, y, c) {
    const x = plus(this.multiply(this.unit.W, y), this.unit.b, this.multiply(this.unit.C, c));
    return this.unit.step(x, s);
  }

  /** Return the states after words are chosen, each for the hypothesis that it continues. */
  follow(looked, parents, words) {
    if (looked.update) return gather(looked.update.state, this.unit.n, parents);
    return this.updateWith(looked, parents, words).state;
  }

  /** Return s_i = f(s_{i-1}, y_i, c_i) of the program's order, with what led to it. */
  updateWith(looked, parents, words) {
    const width = looked.c.length / (looked.s.length / this.unit.n);
    const s = gather(looked.s, this.unit.n, parents);
    return this.update(s, this.targetEmbedding.of(words), gather(looked.c, width, parents));
  }
}
