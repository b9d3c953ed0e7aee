"use strict";
/*
 * Whether a text is like those that the model knows, as in data/coverage.py: how many words are
 * unknown, into how many pieces words split, and how sure the model is of what it writes. A side is
 * {language, text, dictionary, piecesPerWord}, the last one measured on the training text.
 */
const MOST_UNKNOWN = 0.05, MOST_PIECES = 1.5, LEAST_BITS = 1, MOST_EXAMPLES = 5;

/** Count the words of sentences in one language; `trouble` is 1 where a warning is due. */
function counted(side, sentences) {
  const names = [], sizes = [];
  let unknown = 0, lines = 0;
  for (const sentence of sentences) {
    const tokens = side.text.tokens(sentence), { words, belongs } = joinedPieces(tokens);
    names.push(...words);
    sizes.push(...words.map((_, word) => belongs.filter((one) => one === word).length));
    unknown += new Set(side.dictionary.unknown(tokens).map((place) => belongs[place])).size;
    lines += tokens.length > 0;
  }
  const words = names.length || 1, pieces = sizes.reduce((sum, size) => sum + size, 0) / words;
  const unknownRate = unknown / words, excess = pieces / side.piecesPerWord / MOST_PIECES;
  const trouble = Math.max(unknownRate / MOST_UNKNOWN, excess);
  const isBad = trouble >= 1 || (lines === 1 && unknown > 0);
  const split = names.filter((_, word) => sizes[word] >= MOST_PIECES * side.piecesPerWord);
  return { count: names.length, pieces, unknownRate, excess, trouble, isBad, split };
}

/** Return a warning if the model is less sure of its tokens than of the validation text's. */
function unsure(probabilities, validationBits) {
  const bits = probabilities.reduce((sum, one) => sum - Math.log2(one), 0) / probabilities.length;
  if (!validationBits || !(bits > Math.max(LEAST_BITS, validationBits))) return [];
  return ["the text seems unlike the training's; the model gives what it writes a probability of "
    + `${(2 ** -bits).toFixed(3)} a token (geometric mean), and gave `
    + `${(2 ** -validationBits).toFixed(3)} to human translations of its validation text`];
}

/**
 * Return warnings about the kind of a text, given as its sentences; unknown words are not named.
 * `probabilities` are those of the translations' tokens.
 */
function warningsOf(sentences, [source, target], probabilities, validationBits) {
  const found = counted(source, sentences), other = counted(target, sentences), said = [];
  if (!found.isBad) return unsure(probabilities, validationBits);
  if (found.excess >= 1 && found.unknownRate < MOST_UNKNOWN) {
    const examples = [...new Set(found.split)].slice(0, MOST_EXAMPLES);
    const such = examples.length === MOST_EXAMPLES ? ", such as" : ":";
    const words = `${found.count.toLocaleString("en")} word${found.count === 1 ? "" : "s"}`;
    said.push(`the model has hardly seen such words: the ${words} `
      + `(${source.language}) split into ${found.pieces.toFixed(1)} subword pieces each, and `
      + `those of the training into ${source.piecesPerWord.toFixed(1)}${such} ${examples.join(", ")}`);
  }
  if (other.trouble < found.trouble && other.trouble <= found.trouble / 2) {
    const pieces = other.pieces > 1 ? `, ${other.pieces.toFixed(1)} pieces a word` : "";
    said.push(`it looks like ${target.language}: are the languages swapped? `
      + `(${(100 * other.unknownRate).toFixed(1)}% unknown${pieces})`);
  }
  return said;
}
