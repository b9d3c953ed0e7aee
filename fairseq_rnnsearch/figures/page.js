const data = JSON.parse(at("data").textContent);

let visible = []; // the sentences that the list shows, as indices into data.sentences, in its order
let chosen = -1; // the index of the sentence that is shown; -1 until there is one
let sentence; // that sentence
const view = new Heatmap(at("heatmap"), true);

/** Show the sentence's links, and disable buttons that would do nothing. */
function showLinks() {
  const links = view.pharaoh();
  at("pharaoh").textContent = links;
  at("copy").disabled = !links;
  const empty = !sentence.source.length || !sentence.target.length;
  for (const id of ["png", "svg"]) at(id).disabled = empty;
}

// --- the list ------------------------------------------------------------------------------------

const STATISTICS = Object.keys(data.statistics);
const KEYS = {
  id: (sentence) => sentence.id, length: (sentence) => wordCount(sentence.source),
  ...Object.fromEntries(STATISTICS.map((name) => [name, (sentence) => sentence[name]])),
};

/** Return the words of a sentence without its end symbol. */
const wordsOf = (sentence, side) => sentence[side].slice(0, wordCount(sentence[side]));

/** Remove what a search ignores: case, accents, and spaces, as "J'ai" can be two tokens. */
const plain = (text) => text.normalize("NFD").replace(/[\p{M}\s]/gu, "").toLowerCase();
const texts = data.sentences.map(
  (sentence) => SIDES.map((side) => plain(wordsOf(sentence, side).join(""))).join("\n"));

const lengths = (sentence) =>
  SIDES.map((side) => wordCount(sentence[side])).join(" → ") + " words";

/** Show a sentence's lengths and statistics, each number with its meaning. */
function showFacts() {
  at("lengths").textContent = lengths(sentence);
  at("facts").replaceChildren(...STATISTICS.filter((name) => sentence[name] !== null)
    .flatMap((name) => [
      create("dt", { textContent: `${name} ${figures(sentence[name], 2)}` }),
      create("dd", { textContent: data.statistics[name] }),
    ]));
}

const items = data.sentences.map((sentence, n) => create(
  "li", { id: `item-${n}`, role: "option", ariaSelected: "false" },
  ...SIDES.map((side) => create("span", {
    dir: "auto", textContent: wordsOf(sentence, side).join(" "),
  })), create("small")));

/** List the sentences that the search finds, in the chosen order. */
function arrange() {
  const query = plain(at("search").value);
  const order = at("sort").value, key = KEYS[order];
  const statistic = STATISTICS.includes(order) ? order : STATISTICS[0];
  const sign = at("direction").getAttribute("aria-pressed") === "true" ? -1 : 1;
  visible = [...data.sentences.keys()].filter((n) => texts[n].includes(query));
  visible.sort((a, b) => {
    const x = key(data.sentences[a]), y = key(data.sentences[b]);
    // unknown ones go last
    if (x === null || y === null) return (x === null) - (y === null) || a - b;
    return sign * (x - y) || a - b;
  });
  for (const n of visible) {
    const listed = data.sentences[n];
    const number = listed[statistic];
    const value = number === null ? [] : [`${statistic} ${figures(number, 2)}`];
    items[n].lastChild.textContent = [listed.id, lengths(listed), ...value].join(" · ");
  }
  at("list").replaceChildren(...visible.map((n) => items[n]));
  const total = data.sentences.length;
  at("count").textContent = visible.length === total ? `${total} sentence${total === 1 ? "" : "s"}`
    : `${visible.length} of ${total} sentences`;
  if (visible.length && !visible.includes(chosen)) choose(visible[0]);
  else showPlace();
}

/** Show in the list, and by the buttons beside the heading, where the chosen sentence stands. */
function showPlace() {
  const place = visible.indexOf(chosen);
  at("previous").disabled = place <= 0;
  at("next").disabled = place < 0 || place === visible.length - 1;
  if (place < 0) at("list").removeAttribute("aria-activedescendant");
  else {
    at("list").setAttribute("aria-activedescendant", items[chosen].id);
    const list = at("list"), box = list.getBoundingClientRect();
    const item = items[chosen].getBoundingClientRect(); // scroll the list, never the page
    if (item.top < box.top) list.scrollTop -= box.top - item.top;
    else if (item.bottom > box.bottom) list.scrollTop += item.bottom - box.bottom;
  }
}

/** Show a sentence, given its index into data.sentences. */
function choose(n) {
  items[chosen]?.setAttribute("aria-selected", "false");
  chosen = n;
  items[chosen].setAttribute("aria-selected", "true");
  sentence = data.sentences[n];
  at("name").textContent = `Sentence ${sentence.id}`;
  showFacts();
  at("done").textContent = "";
  view.show(decoded(sentence, data));
  showLinks();
  showPlace();
  if (linked() !== sentence.id) history.replaceState(null, "", `#sentence=${sentence.id}`);
}

/** Choose another sentence of the list by a key. */
function move(event) {
  const place = visible.indexOf(chosen), page = 8, key = plainKey(event);
  const to = key === "PageDown" ? Math.min(place + page, visible.length - 1)
    : key === "PageUp" ? Math.max(place - page, 0)
    : step(key, place, visible.length, "ArrowUp", "ArrowDown");
  if (to === undefined || !visible.length) return;
  event.preventDefault();
  if (to !== place) choose(visible[to]);
}

at("list").addEventListener("keydown", move);
at("list").addEventListener("click", (event) => {
  const item = event.target.closest("li");
  if (item) choose(Number(item.id.slice("item-".length)));
});
at("search").addEventListener("input", arrange);
at("search").addEventListener("keydown", (event) => {
  if (event.key === "ArrowUp" || event.key === "ArrowDown") move(event);
});
at("sort").addEventListener("change", arrange);
at("direction").addEventListener("click", ({ currentTarget: button }) => {
  const descending = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", descending);
  button.textContent = descending ? "↓" : "↑";
  arrange();
});
at("previous").addEventListener("click", () => choose(visible[visible.indexOf(chosen) - 1]));
at("next").addEventListener("click", () => choose(visible[visible.indexOf(chosen) + 1]));

// --- controls ------------------------------------------------------------------------------------

for (const radio of document.querySelectorAll("[name=mode]")) {
  radio.addEventListener("change", () => {
    view.set({ mode: radio.value });
    at("invert").hidden = radio.value === "mattered"; // colours are not inverted
  });
}
at("inverted").addEventListener("change", ({ target: box }) => {
  view.set({ inverted: box.checked });
});
at("threshold").addEventListener("input", ({ target: slider }) => {
  const threshold = Number(slider.value);
  at("threshold-value").textContent = threshold.toFixed(2);
  view.set({ threshold });
  showLinks();
});

for (const kind of ["svg", "png"]) {
  at(kind).addEventListener("click", async () => {
    const name = `alignment-${sentence.id}.${kind}`;
    download(await fileOf(view.draw("#000", "#fff"), kind), name);
    at("done").textContent = `${name} saved`;
  });
}

at("copy").addEventListener("click", async () => {
  const line = view.pharaoh();
  try {
    await navigator.clipboard.writeText(line);
  } catch { // some browsers forbid it to a page on disk
    getSelection().selectAllChildren(at("pharaoh"));
    document.execCommand("copy");
  }
  at("done").textContent = "Pharaoh line copied";
});

// --- start ---------------------------------------------------------------------------------------

/** Return the number in an address that ends in #sentence=17, or null. */
function linked() {
  const match = /^#sentence=(-?\d+)$/.exec(location.hash);
  return match ? Number(match[1]) : null;
}

/** Show the sentence that the address names; return false if there is no such sentence. */
function follow() {
  const n = data.sentences.findIndex((sentence) => sentence.id === linked());
  if (n < 0) return false;
  if (visible.length && !visible.includes(n)) at("search").value = "";
  choose(n);
  arrange();
  return true;
}

if (data.inverted) at("inverted").click();
for (const option of at("sort").options) {
  option.disabled = data.sentences.every((sentence) => KEYS[option.value](sentence) === null);
}
const wanted = linked();
if (!follow()) {
  arrange();
  if (wanted !== null) at("count").textContent += `; no sentence ${wanted}`;
}
addEventListener("hashchange", follow);
