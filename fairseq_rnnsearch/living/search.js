"use strict";
/*
 * Beam search for one sentence. Its results equal those of decoding/search/beam_search.py, and so
 * fairseq's.
 *
 * `touched` holds the reader's changes: words[i] is the only word that step i may choose, and
 * rows[i] replaces alpha_i for every hypothesis.
 */
const ALTERNATIVES = 10; // likeliest words kept for each step
const SPECIAL = { pad: 1, end: 2, unknown: 3 }; // fairseq's numbers in every dictionary

/** Return the k largest of part of an array, largest first, as [value, place]. */
function largest(values, k, start = 0, end = values.length) {
  const best = [];
  let least = -Infinity;
  for (let place = start; place < end; place++) {
    const value = values[place];
    if (best.length === k && value <= least) continue;
    let at = Math.min(best.length, k - 1); // the place of the one that is dropped, or a new one
    while (at > 0 && best[at - 1][0] < value) {
      best[at] = best[at - 1];
      at--;
    }
    best[at] = [value, place];
    if (best.length === k) least = best[k - 1][0];
  }
  return best;
}

/** Return the likeliest words of each hypothesis as [[word, log p], ...]. */
function likeliest(logp, words, hypotheses) {
  return Array.from({ length: hypotheses }, (_, v) =>
    largest(logp, ALTERNATIVES, v * words, (v + 1) * words)
      .map(([value, place]) => [place - v * words, value]));
}

/** Forbid words in place, as `_Search._limit` does. */
function limit(logp, words, step, longest, touched, forbidUnknown) {
  const only = step >= longest ? SPECIAL.end : touched.words[step];
  for (let start = 0; start < logp.length; start += words) {
    logp[start + SPECIAL.pad] = -Infinity;
    if (forbidUnknown) logp[start + SPECIAL.unknown] = -Infinity;
    if (only === undefined) {
      if (step === 0) logp[start + SPECIAL.end] = -Infinity; // fairseq's --min-len is 1
      continue;
    }
    for (let k = 0; k < words; k++) if (k !== only) logp[start + k] = -Infinity;
  }
}

/**
 * Divide the candidates of a step, best first, into those that go on and those that are complete.
 *
 * As in fairseq, an end counts only among the best `beam` candidates; if the others are too few,
 * complete candidates fill the beam and do not count again (`full`).
 */
function sortOut(candidates, beam, full, ended) {
  const going = [], complete = [], ends = [];
  for (const [rank, candidate] of candidates.entries()) {
    if (rank < beam && full.has(rank)) complete.push(candidate);
    else if (candidate.word === SPECIAL.end && candidate.score !== -Infinity) {
      complete.push(candidate);
      if (rank < beam && ended + ends.length < beam) ends.push(candidate);
    } else {
      going.push(candidate);
      if (rank + 1 >= beam && going.length >= beam) break;
    }
  }
  const places = Array.from({ length: beam }, (_, place) => place);
  const missing = new Set(places.slice(going.length));
  return { rows: [...going, ...complete].slice(0, beam), ends, full: missing };
}

/**
 * Translate word numbers, the end symbol included.
 *
 * Returns complete hypotheses, best first: {words, logp (of each word), score, steps, path}, with
 * the weights and the likeliest words of each step in `steps`. Also returns all words that the beam
 * kept as `nodes` of a tree: {word, parent, logp, score}. `path` has the numbers of a hypothesis's
 * nodes. A node's score, by which the beam is chosen, is the sum of log p up to its word.
 */
function beamSearch(network, sourceWords, { beam, lenpen, forbidUnknown, touched }) {
  const source = network.encode(sourceWords), { words } = network;
  beam = Math.min(beam, words - 1); // as in Python, where padding is never chosen
  const longest = network.longest(source.positions);
  let state = source.state, rows = [{ word: null, score: 0, parent: null }];
  let full = new Set();
  const finished = [], nodes = [];
  const grow = (candidate) => {
    const { word, parent, score } = candidate;
    const node = { word, parent: parent.node ?? null, logp: score - parent.score, score };
    candidate.node = nodes.push(node) - 1;
  };
  for (let step = 0; step <= longest && rows.length && finished.length < beam; step++) {
    const previous = rows.map((row) => row.word);
    const looked = network.look(state, previous, source, touched.rows[step]);
    const best = likeliest(looked.logp, words, rows.length);
    limit(looked.logp, words, step, longest, touched, forbidUnknown);
    const totals = looked.logp; // of the hypotheses with each next word
    rows.forEach(({ score }, v) => {
      for (let k = v * words; k < (v + 1) * words; k++) totals[k] += score;
    });
    const candidates = largest(totals, Math.min(2 * beam, totals.length - 1))
      .map(([score, place]) => {
        const v = Math.floor(place / words);
        const alpha = looked.alpha?.slice(v * source.positions, (v + 1) * source.positions);
        return {
          word: place % words, score, parent: rows[v], row: v, alpha, likeliest: best[v],
        };
      });
    const sorted = sortOut(candidates, beam, full, finished.length);
    finished.push(...sorted.ends);
    // impossible ones would never be chosen while there are others
    rows = sorted.rows.filter(({ score }) => score !== -Infinity);
    full = sorted.full;
    new Set([...rows, ...sorted.ends]).forEach(grow);
    state = network.follow(looked, rows.map((row) => row.row), rows.map((row) => row.word));
  }
  const hypotheses = finished.map((end) => hypothesis(end, lenpen));
  return { hypotheses: hypotheses.sort((a, b) => b.score - a.score), nodes };
}

/** Follow a hypothesis back from its end. */
function hypothesis(end, lenpen) {
  const steps = [];
  for (let at = end; at.parent; at = at.parent) steps.unshift(at);
  return {
    words: steps.map(({ word }) => word),
    logp: steps.map(({ score, parent }) => score - parent.score),
    score: end.score / steps.length ** lenpen,
    steps: steps.map(({ alpha, likeliest: best }) => ({ alpha, likeliest: best })),
    path: steps.map(({ node }) => node),
  };
}

/** Score given words, the end symbol included, step by step; `visit` sees all that is computed. */
function forced(network, sourceWords, targetWords, touched, visit = () => {}) {
  const source = network.encode(sourceWords);
  const words = targetWords.map((word, i) => touched.words[i] ?? word);
  let { state } = source, previous = null;
  const logp = [], steps = [];
  for (const [i, word] of words.entries()) {
    const looked = network.look(state, [previous], source, touched.rows[i]);
    visit(i, looked, source);
    logp.push(looked.logp[word]);
    const [best] = likeliest(looked.logp, network.words, 1);
    steps.push({ alpha: looked.alpha, likeliest: best });
    if (i + 1 < words.length) state = network.follow(looked, [0], [word]);
    previous = word;
  }
  const score = logp.reduce((sum, one) => sum + one, 0) / words.length;
  return { words, logp, score, steps };
}
