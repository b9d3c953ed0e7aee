"use strict";
/*
 * Sentences to tokens and back, as in text/plain_text.py, text/tokenizers.py and subword-nmt.
 *
 * The splitting into subwords is subword-nmt's (MIT). `rules` come from living_page.py: the letters of
 * words as ranges for regular expressions, and merges.
 */
const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a"
  + "\\u2028\\u2029\\u202f\\u205f\\u3000";
const SPACES = new RegExp(`[${SPACE}]+`, "u"); // what Python's \s and str.split take for space
const EDGES = new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "gu");
const strip = (text) => text.replace(EDGES, "");
const words = (text) => text.split(SPACES).filter(Boolean);

// At a new line, and where sentences_in of text/plain_text.py splits a line.
const GERMAN = "Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember";
const ABBREVIATION = "(?<![\\p{L}\\p{N}_])(?:\\p{Lu}|Mr|Mrs|Ms|Dr|St|Prof|Mme|Mlle)\\."
  + `|\\p{Nd}\\.(?=[${SPACE}]+(?:${GERMAN}|Jahrhundert)(?!\\p{L}))`;
const SENTENCE_END = new RegExp(`\\n+|(?<=[.!?…؟।۔։።။។]["'”’»)\\]]*)(?<!${ABBREVIATION})[${SPACE}]+`
  + `(?=["'“‘«(\\[¿¡]*[\\p{Lu}\\p{Lo}])`
  + `|(?<=[。！？]["'”’」』）]*)[${SPACE}]*(?=[\\p{L}「『（])`, "u");

/** Split a text into its sentences. */
const sentencesOf = (text) => text.split(SENTENCE_END).map(strip).filter(Boolean);

// --- words, and characters -----------------------------------------------------------------------

/** Split into words and punctuation marks, as `word_tokenizer` does. */
function wordSplitter({ language, classes }) {
  const word = `[${classes.word}]`, begins = `(?<!${word})`, ends = `(?!${word})`;
  const alone = { en: `'s${ends}|`, fr: `${begins}(?:[cdjlmnst]|${word}*qu)'|` }[language] ?? "";
  const pattern = `${alone}${word}+(?:[-'](?!s${ends})${word}+)*|[^${classes.word}${SPACE}]`;
  const expression = new RegExp(pattern, "giu");
  return (sentence) => sentence.replaceAll("’", "'").match(expression) ?? [];
}

function wordJoiner({ language }) {
  const close = { fr: ".,)", en: ".,;:?!)'" }[language] ?? ".,;:?!)";
  return (tokens) => tokens.reduce((text, word, i) => {
    const before = tokens[i - 1] ?? "", elided = language === "fr" && before.endsWith("'");
    const tight = !before || before === "(" || close.includes(word[0]) || elided;
    return text + (tight ? "" : " ") + word;
  }, "");
}

const SPACE_AS_TOKEN = "\u2581";

/** Split into what a reader calls characters, spaces included. */
function characters(sentence) {
  const segments = new Intl.Segmenter("und", { granularity: "grapheme" });
  return Array.from(segments.segment(words(sentence).join(SPACE_AS_TOKEN)), (one) => one.segment);
}

const sentenceOfCharacters = (tokens) =>
  words(tokens.join("").replaceAll(SPACE_AS_TOKEN, " ")).join(" ");

// --- text that comes back as it was: text/reversible.py --------------------------------------------

const WORD = "\\p{L}\\p{N}\\p{M}\\p{Cf}", SYMBOL = `[^${WORD}${SPACE}]`;
const ATTACHED = "[\\p{M}\\p{Cf}\\u{1f3fb}-\\u{1f3ff}]*";
const PIECES = new RegExp(`(?<space>[${SPACE}]+)`
  + `|(?<word>(?:[${WORD}]|(?<=\\p{N})[.,:](?=\\p{N}))+(?:['’](?=\\p{L}))?)`
  + `|[\\u{1f1e6}-\\u{1f1ff}]{2}|@`
  + `|(${SYMBOL})${ATTACHED}(?:(?<=\\u200d)${SYMBOL}${ATTACHED}|\\3)*`, "gu");
const UNWRITABLE = new RegExp(`[${SPACE}${JOINER}${ESCAPE}]`, "gu");
const ESCAPED = new RegExp(`${ESCAPE}([0-9a-f]{4})`, "gu");
const PART = new RegExp(`${CAPITALS}|${CAPITAL}|\\p{Nd}|[^${ESCAPE}\\p{Nd}]+`, "gu");
const ESCAPED_WHOLE = new RegExp(`^${ESCAPE}([0-9a-f]{4})$`, "u");

function reversibleSplit(line) {
  const tokens = [];
  let isJoined = false;
  for (const { 0: piece, index, groups } of line.matchAll(PIECES)) {
    if (piece === " " && index > 0 && index + 1 < line.length) {
      isJoined = false;
      continue;
    }
    const text = piece.replace(UNWRITABLE, (one) =>
      ESCAPE + one.charCodeAt(0).toString(16).padStart(4, "0"));
    if (isJoined && groups.word !== undefined) tokens[tokens.length - 1] += JOINER;
    tokens.push(isJoined && groups.word === undefined ? JOINER + text : text);
    isJoined = true;
  }
  return tokens;
}

/** Return the white space that has a token among a model's symbols, and the plain space. */
function spacesIn(symbols) {
  const codes = symbols.map((one) => shown(one).match(ESCAPED_WHOLE)?.[1]).filter(Boolean);
  return new Set([" ", ...codes.map((code) => String.fromCharCode(parseInt(code, 16)))]);
}

/** Strip a line, and replace each white space that is not known by a plain space. */
const withSpacesOf = (line, known) => strip(line).replace(new RegExp(SPACES, "gu"),
  (found) => (known.has(found) ? found : " "));

function reversibleJoin(tokens) {
  let text = "", isJoined = true;
  for (const token of tokens) {
    if (!isJoined && !token.startsWith(JOINER)) text += " ";
    text += shown(token).replace(ESCAPED, (_, code) => String.fromCharCode(parseInt(code, 16)));
    isJoined = token.endsWith(JOINER);
  }
  return text;
}

function lowerOf(letter) {
  const lower = letter.toLowerCase();
  return Array.from(lower).length === 1 && lower.toUpperCase() === letter ? lower : letter;
}

/** Return what merges may split further: marks of case, digits, and lower case between them. */
function partsOf(token) {
  if (token.includes(ESCAPE)) return [token];
  const letters = Array.from(token), lower = letters.map(lowerOf);
  const capitals = letters.filter((one, i) => one !== lower[i]).length;
  const marked = capitals > 1 && lower.map(upperOf).join("") === token ? [CAPITALS, ...lower]
    : lower.map((low, i) => (low === letters[i] ? low : CAPITAL + low));
  return marked.join("").match(PART);
}

// --- subwords ------------------------------------------------------------------------------------

function subwords(lines, caseAndDigits) {
  const hasVersion = lines[0].startsWith("#version:");
  const [major, minor] = hasVersion ? lines[0].split(/\s+/).at(-1).split(".").map(Number) : [0, 1];
  const newer = major > 0 || minor >= 2, ranks = new Map();
  lines.slice(hasVersion ? 1 : 0).forEach((line, rank) => {
    const pair = line.replace(/^[\r\n ]+|[\r\n ]+$/g, "");
    if (!ranks.has(pair)) ranks.set(pair, rank);
  });
  const known = new Map();
  const partsOfWord = caseAndDigits ? partsOf : (token) => [token];
  const pieces = (word) => {
    if (caseAndDigits && word.includes(ESCAPE)) return [word];
    const letters = Array.from(word);
    if (letters.length === 1) return letters;
    let parts = newer ? [...letters.slice(0, -1), `${letters.at(-1)}</w>`] : [...letters, "</w>"];
    while (parts.length > 1) {
      let best = Infinity, pair;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = ranks.get(`${parts[i]} ${parts[i + 1]}`);
        if (rank < best) [best, pair] = [rank, [parts[i], parts[i + 1]]];
      }
      if (best === Infinity) break;
      const merged = [];
      for (let i = 0; i < parts.length; i++) {
        const fits = parts[i] === pair[0] && parts[i + 1] === pair[1];
        merged.push(fits ? parts[i] + parts[++i] : parts[i]);
      }
      parts = merged;
    }
    if (parts.at(-1) === "</w>") parts.pop();
    else parts.push(parts.pop().replace(/<\/w>$/, ""));
    return parts;
  };
  return (tokens) => tokens.flatMap((token) => {
    if (!known.has(token)) {
      const parts = partsOfWord(token).flatMap(pieces);
      known.set(token, parts.map((piece, i) => (i + 1 < parts.length ? `${piece}@@` : piece)));
    }
    return known.get(token);
  });
}

// --- both directions -----------------------------------------------------------------------------

/** Turns one language's text into tokens (`tokens`) and back (`text`), as PlainText does. */
class PlainText {
  /** With a model's symbols, it reads only the white space that these include. */
  constructor(rules, merges, symbols = null) {
    [this.split, this.join] = {
      words: () => [wordSplitter(rules), wordJoiner(rules)],
      character: () => [characters, sentenceOfCharacters],
      reversible: () => [reversibleSplit, reversibleJoin],
      space: () => [words, (tokens) => tokens.join(" ")],
    }[rules.tokenizer]();
    this.lowercase = rules.lowercase;
    this.hasPieces = rules.hasPieces; // or a token that ends with "@@" is the text's own
    this.segment = merges ? subwords(merges, rules.caseAndDigits) : (tokens) => tokens;
    this.spaces = symbols && spacesIn(symbols);
  }

  tokens(sentence) {
    const tokens = this.split(this.spaces ? withSpacesOf(sentence, this.spaces) : sentence);
    return this.segment(this.lowercase ? tokens.map((token) => token.toLowerCase()) : tokens);
  }

  text(tokens) {
    const joined = `${tokens.join(" ")} `;
    return this.join(words(this.hasPieces ? joined.replaceAll("@@ ", "") : joined));
  }
}
