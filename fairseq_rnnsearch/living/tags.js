"use strict";
/*
 * Tags and placeholders: out of a text, and back around the words that theirs became. The rules, the
 * steps and their order are those of align/tags.py, which explains them.
 */
const LETTERS = "\\p{L}\\p{N}_"; // Python's \w
const ITEM = new RegExp(
  `<(?<end>/?)(?<name>[A-Za-z][${LETTERS}:.-]*)(?:[^<>"']|"[^"]*"|'[^']*')*?(?<empty>/?)>`
  + "|<!--[^\\n]*?-->|\\$?\\{+[^{}]*\\}+|(?<!\\p{Nd})%(?:"
  + `\\([${LETTERS}]+\\)|\\p{Nd}+\\$)?[-+#0]?\\p{Nd}*(?:\\.\\p{Nd}+)?l{0,2}[diouxXeEfFgGcs@]`, "gu");
const ENTITY = new RegExp(`&(?:#\\p{Nd}+|#x[\\p{Nd}a-fA-F]+|[A-Za-z][${LETTERS}]*);`, "u");
const WITHOUT_WORDS = /^(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)$/i;
const CLOSING = /^[,.;:!?)\]}]/, SAME_CASE = 1, SAME_TEXT = 3, ELSEWHERE = 2, ARTICLE = 1;
const TOKEN = new RegExp(`[${SPACE}]|[${LETTERS}]{1,2}['’](?=[${LETTERS}])`
  + `|[${LETTERS}](?:[^${SPACE}!-&(-,./:-@[-^\`{-~—–…“”«»]*[${LETTERS}])?|[^${LETTERS}]`, "gu");
const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
const isSpace = (one) => SPACES.test(one);
const isUpper = (text) => /^\p{Uppercase}/u.test(text);
const isShort = (word) => /^(?=.*\p{Lowercase})[^\p{Uppercase}\p{Lt}]{1,3}['’]?$/u.test(word);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const summed = (numbers) => numbers.reduce((sums, one) => [...sums, sums.at(-1) + one], [0]);

/** Return the words, {text, begin, end} each. See `_words`. */
const wordsIn = (line) => Array.from(line.matchAll(TOKEN), ({ 0: text, index }) =>
  ({ text, begin: index, end: index + text.length })).filter(({ text }) => !isSpace(text));

/** Split a text into parts {kind, text}; kinds are text, open, close and alone. See `_parts`. */
function splitAtTags(line, matches) {
  const kinds = matches.map(() => "alone"), names = [], parts = [], opened = [];
  matches.forEach(({ groups: { name, empty, end } }, n) => {
    if (!name || empty || WITHOUT_WORDS.test(name)) return;
    const first = names.findLastIndex((one) => one.name === name);
    if (!end) names.push({ name, n });
    else if (first >= 0) [kinds[names.splice(first)[0].n], kinds[n]] = ["open", "close"];
  });
  const isBlank = ({ kind, text }) => kind === "alone" || !strip(text);
  let at = 0;
  matches.forEach(({ 0: text, index }, n) => {
    if (at < index) parts.push({ kind: "text", text: line.slice(at, index) });
    at = index + text.length;
    let begin = kinds[n] === "close" ? opened.pop() : parts.length;
    if (kinds[n] === "open") opened.push(begin);
    parts.push({ kind: kinds[n], text });
    if (kinds[n] === "open" || !parts.slice(begin + 1, -1).every(isBlank)) return;
    while (begin && isBlank(parts[begin - 1])) begin--;
    if (parts[begin].kind === "text") begin++;
    parts.push({ kind: "alone", text: parts.splice(begin).map((one) => one.text).join("") });
  });
  return [...parts, { kind: "text", text: line.slice(at) }];
}

/** Return {text, items, isHtml}, a `Line`; `unescaped` is html.unescape. */
function takenOut(line, unescaped) {
  const matches = [...line.matchAll(ITEM)], items = [], opened = [], gaps = [], dropped = new Set();
  const isHtml = ENTITY.test(line) || matches.some(({ groups }) => groups.name);
  let text = "", before = "";
  for (const { kind, text: part } of splitAtTags(line, matches)) {
    if (kind === "text") text += isHtml ? unescaped(part) : part;
    else if (kind === "close") Object.assign(opened.pop(), { after: part, end: text.length });
    else {
      const parent = items.indexOf(opened.at(-1)), spaces = [!text || isSpace(text.at(-1)), true];
      if (kind === "alone" || before === "close") gaps.push((text += " ").length - 1);
      items.push({ before: part, after: "", begin: text.length, end: text.length, parent, spaces });
      if (kind === "open") opened.push(items.at(-1));
    }
    before = kind;
  }
  for (const { 0: run, index: start } of text.matchAll(new RegExp(SPACES, "gu"))) {
    const end = start + run.length, isGap = gaps.some((gap) => start <= gap && gap < end);
    for (let k = start; k < end; k++) dropped.add(k);
    if (start > 0 && end < text.length && !(isGap && CLOSING.test(text[end]))) {
      dropped.delete(start + Math.max(0, run.indexOf("\n"))); // a new line ends a sentence
    }
  }
  const moved = (at) => at - [...dropped].filter((place) => place < at).length;
  for (const one of items) {
    const hasSpace = one.end === text.length || isSpace(text[one.end]);
    one.spaces = one.begin < one.end ? [true, true] : [one.spaces[0], hasSpace];
    [one.begin, one.end] = [moved(one.begin), moved(one.end)];
  }
  const kept = text.split("").filter((_, k) => !dropped.has(k)).join("");
  return { text: isHtml || items.length ? kept : line, items, isHtml };
}

/** Return links between words from those of tokens; null if these are other letters. See `_links`. */
function linksOf(words, ofSource, { source, target, weights }) {
  const shares = (tokens, side) => { // of the tokens in each word
    const ends = summed(tokens.map(({ length }) => length)), to = summed(side.map(({ text }) => text.length));
    if (ends.at(-1) !== to.at(-1)) return null;
    return side.map((_, i) => tokens.map(({ length }, t) =>
      [t, (Math.min(ends[t + 1], to[i + 1]) - Math.max(ends[t], to[i])) / length]).filter(([, share]) => share > 0));
  };
  const columns = shares(source, ofSource), parts = shares(target, words);
  if (!columns || !parts) return null;
  const add = (several, of) => sum(several.map(([t, share]) => share * of(t)));
  const rows = weights.map((row) => columns.map((column) => add(column, (s) => row[s])));
  return parts.map((part) => {
    const links = columns.map((_, j) => add(part, (t) => rows[t][j])), total = Math.max(1e-9, sum(links));
    return links.map((link) => link / total);
  });
}

/** Return a function that scores places from word a to before word b; null: there are none. */
function scorer(source, { begin, end }, { ofSource, target, words, links, totals }) {
  if (begin === end) {
    const behind = ofSource.filter((word) => word.end <= begin).length;
    const near = ofSource.map((_, j) => (j < behind ? 2 ** (j - behind) : -(2 ** (behind - j - 1))));
    const sums = summed(links.map((row) => sum(row.map((link, j) => link * near[j]))));
    return (a) => 2 * sums[a] - sums.at(-1);
  }
  const inside = ofSource.map((word) => word.begin < end && begin < word.end);
  if (!inside.includes(true)) return null;
  const sums = summed(links.map((row) => sum(row.map((link, j) =>
    (inside[j] ? link + link / totals[j] : -link / totals[j]))) - 0.5));
  const text = strip(source.slice(begin, end)), middle = (begin + end) / 2 / source.length;
  const caseCounts = begin > 0 && /^\p{L}/u.test(text) ? SAME_CASE / 2 : 0;
  const articleCounts = isShort(text.match(TOKEN)[0]) ? 0 : ARTICLE;
  const starts = words.map(({ text: word }) => (isUpper(word) === isUpper(text) ? caseCounts : -caseCounts)
    - (isShort(word) ? articleCounts : 0));
  return (a, b) => {
    const first = words[a].begin, last = words[b - 1].end;
    return sums[b] - sums[a] + starts[a]
      - ELSEWHERE * Math.abs((first + last) / 2 / target.length - middle)
      + (last - first === text.length && target.startsWith(text, first) ? SAME_TEXT : 0);
  };
}

/** Return the place of an item among the words; `places` are those of the items before it. */
function placeOf(item, { text, items }, places, given) {
  const around = items[item.parent] ?? { begin: 0, end: text.length }, isEmpty = item.begin === item.end;
  const [begin, stop] = places[item.parent] ?? [0, given.words.length];
  const isFirst = !strip(text.slice(around.begin, item.begin));
  const isLast = !strip(text.slice(item.end, around.end));
  if (isEmpty && (isFirst || isLast)) return isFirst ? [begin, begin] : [stop, stop];
  if (isFirst && isLast) return [begin, stop];
  const score = scorer(text, item, given), others = places.filter((_, n) => items[n].parent === item.parent);
  let most = -Infinity, place = [begin, begin];
  for (let a = begin; score && a <= stop; a++) {
    const behind = others.filter(([, end]) => a < end).map(([first]) => first); // it is apart from them
    const last = Math.min(isEmpty ? a : stop, ...behind);
    for (let b = isEmpty ? a : a + 1; b <= last; b++) {
      const found = score(a, b);
      if (found > most) [most, place] = [found, [a, b]];
    }
  }
  return place;
}

/**
 * Return the translation with each item once, in parts {text, at, word}: `at` is a place in the
 * translation, and what is of it has the number of a `word`, or -1. See `put_back`.
 */
function putBack(line, { ofSource, target, words, links }) {
  const { items } = line, { length } = target, places = [], spans = [], parts = [];
  const totals = ofSource.map((_, j) => Math.max(1e-9, sum((links ?? []).map((row) => row[j]))));
  const given = { ofSource, target, words, links, totals };
  const starts = [...words.map(({ begin }) => begin), length], ends = [0, ...words.map(({ end }) => end)];
  for (const item of items) {
    const [begin, end] = places[places.length] = placeOf(item, line, places, given);
    const [least, most] = spans[item.parent] ?? [0, length], [isApart, isApartBehind] = item.spaces;
    const at = Math.min(Math.max(isApart && !isApartBehind ? starts[end] : ends[end], least), most);
    spans.push(begin < end ? [starts[begin], ends[end]] : [at, at]);
  }
  const copy = (from, to) => {
    for (const { 0: text, index } of target.slice(from, to).matchAll(TOKEN)) {
      const written = line.isHtml ? text.replace(/[&<>]/g, (one) => ESCAPES[one]) : text;
      parts.push({ text: written, at: from + index, word: starts.indexOf(from + index) });
    }
  };
  const write = (parent, from, end) => {
    const first = parts.length, children = [...items.keys()].filter((n) => items[n].parent === parent);
    let at = from;
    for (const n of children.sort((a, b) => spans[a][0] - spans[b][0] || spans[a][1] - spans[b][1])) {
      const { before, after, spaces } = items[n], [begin, stop] = spans[n], isEmpty = begin === stop;
      copy(at, begin);
      const isOpen = parts.length > first && !isSpace(parts.at(-1).text.at(-1));
      if (isEmpty && spaces[0] && isOpen) parts.push({ text: " ", at: begin });
      parts.push({ text: before, at: begin });
      write(n, begin, stop);
      parts.push({ text: after, at: stop });
      const next = target.slice(stop, end);
      if (isEmpty && spaces[1] && /^[\p{L}\p{N}]/u.test(next)) parts.push({ text: " ", at: stop });
      at = stop + Number(!spaces[0] && !spaces[1] && isSpace(next.charAt(0)));
    }
    copy(at, end);
  };
  write(-1, 0, length);
  return parts.filter(({ text }) => text);
}
