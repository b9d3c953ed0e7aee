/* A tour for readers who have never seen attention. */
const [FROM, TO] = facts.languageNames;
const TOUR = [ // the part of the page, and what is said of it
  ["#sentence", `In this page, a small neural network translates from ${FROM} to ${TO}. Type a`
    + " sentence here, or go on with this one."],
  [".pair .words:last-child", "It writes one word after another. The bar below a word shows how sure"
    + " it was: a full bar is certain."],
  [".matrix", "Before each word, it chooses where to look. A row is a word that it writes, a column a"
    + " word that it reads: white where it looks, black where it does not. This is attention. The"
    + " weights of a row add up to 1."],
  [".matrix", "Follow the white cells downwards. Where both languages have the same word order they"
    + " form a diagonal, and elsewhere they leave it. Nobody told the network which words belong"
    + " together. It learned that from pairs of sentences."],
  [".pair .words:last-child", "Click a word to see what else the network could have written. Choose"
    + " one of these, and it writes the rest anew."],
  [".matrix", "Now look in its place. Drag in one row from a white cell to another word, or choose a"
    + " cell with the arrow keys and press Enter: the network looks there, and often writes something"
    + " else. Undo takes it back."],
];

/** Show a step of the tour, by its number from 0; any other number ends it. */
function showTour(number) {
  document.querySelector(".toured")?.classList.remove("toured");
  at("tour").hidden = !(number in TOUR);
  if (at("tour").hidden) return;
  const [part, text] = TOUR[number], toured = document.querySelector(part);
  at("tour-text").textContent = `${number + 1} of ${TOUR.length}: ${text}`;
  at("tour-next").textContent = number + 1 in TOUR ? "Next" : "Done";
  at("tour-next").onclick = () => showTour(number + 1);
  toured.classList.add("toured");
  if (number) toured.scrollIntoView({ block: "center" });
}
at("tour-skip").addEventListener("click", () => showTour(-1));
at("tour-start").addEventListener("click", () => showTour(0));
if (!views[0].hasAttention) at("tour-start").hidden = true;
else if (!location.hash) showTour(0); // a link shows what it is for
