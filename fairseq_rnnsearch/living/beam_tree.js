/*
 * The words that the beam kept, as a tree from left to right; those of the translation stand out.
 * Choosing a word continues the search from it. Beside each word stands the number by which the beam
 * is chosen: the base-2 log-probability of all words up to and including it.
 */
const COLUMN = 150, ROW = 24, LONGEST_IN_TREE = 12; // in pixels; in letters

/** Return the place of each node, in columns and rows; children stand below each other. */
function placed(tree) {
  const children = new Map([[null, []]]);
  tree.forEach((_, number) => children.set(number, []));
  tree.forEach(({ parent }, number) => children.get(parent).push(number));
  const places = [], waiting = [{ number: null, column: -1, isFirst: true }];
  let row = 0;
  while (waiting.length) { // not by recursion: a translation may have thousands of words
    const { number, column, isFirst } = waiting.pop();
    if (!isFirst) row++;
    if (number !== null) places[number] = { column, row };
    const below = children.get(number).sort((a, b) => tree[b].isBest - tree[a].isBest
      || tree[b].probability - tree[a].probability);
    waiting.push(...below.map((child, n) => (
      { number: child, column: column + 1, isFirst: n === 0 })).reverse());
  }
  return { places, rows: row + 1 };
}

/** Fill an element with a tree; `chosen` is called with the tokens up to the chosen word. */
function drawTree(element, tree, chosen) {
  const { places, rows } = placed(tree);
  const wide = (Math.max(...places.map(({ column }) => column)) + 1) * COLUMN, high = rows * ROW;
  const svg = svgElement("svg", { width: wide, height: high, viewBox: `0 0 ${wide} ${high}` });
  const x = ({ column }) => column * COLUMN + 4, y = ({ row }) => (row + 0.5) * ROW;
  tree.forEach(({ parent, isBest }, number) => {
    if (parent === null) return;
    const [from, to] = [places[parent], places[number]], end = x(to) - 3, start = end - 14;
    svg.append(svgElement("path", {
      class: isBest ? "best" : "",
      d: `M${start - 4} ${y(from)}C${end - 6} ${y(from)} ${start} ${y(to)} ${end} ${y(to)}`,
    }));
  });
  const tokensTo = (number) => {
    const tokens = [];
    for (let at = number; at !== null; at = tree[at].parent) tokens.push(tree[at].token);
    return tokens.reverse();
  };
  tree.forEach(({ token, probability, score, isBest }, number) => {
    const letters = Array.from(listed(token)), long = letters.length > LONGEST_IN_TREE;
    const word = long ? `${letters.slice(0, LONGEST_IN_TREE - 1).join("")}…` : letters.join("");
    const text = svgElement("text", {
      x: x(places[number]), y: y(places[number]), dy: ".35em", tabindex: 0, role: "button",
      class: isBest ? "best" : "", "fill-opacity": (0.7 + 0.3 * probability).toFixed(2),
    }, word);
    const scored = figures(score, 2);
    text.append(svgElement("tspan", { class: "score" }, ` ${scored}`)); // a gap could not be clicked
    const likely = `${listed(token)}, probability ${probability.toFixed(3)}`;
    text.append(svgElement("title", {}, `${likely}; sum of log₂ p up to here ${scored}`));
    const choose = () => chosen(tokensTo(number));
    text.addEventListener("click", choose);
    text.addEventListener("keydown", (event) => {
      if (!["Enter", " "].includes(plainKey(event))) return;
      event.preventDefault(); // a space scrolls
      choose();
    });
    svg.append(text);
  });
  element.replaceChildren(svg);
}
