/*
 * The living page: the worker with the engine, the text field, and what all views share.
 *
 * Output of a model and text from a reader enter the page as text, never as markup.
 */
const facts = JSON.parse(at("facts").textContent);

// --- the engine ----------------------------------------------------------------------------------

const code = new Blob([at("engine").textContent, "serve(self);"], { type: "text/javascript" });
const worker = new Worker(URL.createObjectURL(code));
const calls = new Map();
let broken = null; // the error that stopped the engine

/** Call a function of the engine; see engine.js. */
function ask(call, ...given) {
  const id = calls.size ? Math.max(...calls.keys()) + 1 : 0;
  return new Promise((resolve, reject) => {
    if (broken) return reject(broken);
    calls.set(id, { resolve, reject });
    worker.postMessage({ id, call, given });
  });
}
worker.onmessage = ({ data: { id, value, error } }) => {
  const { resolve, reject } = calls.get(id);
  calls.delete(id);
  if (error === undefined) resolve(value);
  else reject(new Error(error));
};

worker.onerror = worker.onmessageerror = ({ message }) => {
  broken = new Error(`this browser cannot run the model: ${message}`);
  for (const { reject } of calls.values()) reject(broken);
  calls.clear();
};

/** The interface for scripts, which the manual documents. */
globalThis.rnnsearch = { ready: ask("load", at("stored").textContent) };
for (const call of ["sentences", "warnings", "translate", "force", "step", "mattered"]) {
  rnnsearch[call] = (...given) => ask(call, ...given);
}
at("stored").remove(); // the worker has it now

// --- the whole page ------------------------------------------------------------------------------

const numbers = [...facts.models.keys()].slice(facts.isTraining ? -1 : 0);
const views = numbers.map((number) => new ModelView(number, facts.models[number]));
const past = []; // states for Undo: {view, sentence, touched}
let shownSentence = 0; // the number of the sentence whose matrix is shown
at("models").append(...views.map((view) => view.root));

const LONGEST_TEXT = 2000, PATIENCE = 300; // in letters; in milliseconds
let busy = null, isStale = false;

/** Put a text into the field, cut to the longest that is translated. */
function setText(text) {
  at("sentence").value = text.slice(0, LONGEST_TEXT);
}

/** Return the search options. */
const given = () => ({ beam: Number(at("beam").value), prefix: at("prefix").value,
  tags: at("tags").checked });

/** Return from where to where the selected part of the text goes in the text without tags. */
async function selected() {
  const { value, selectionStart: begin, selectionEnd: end } = at("sentence"), mark = "\ue000";
  if (begin === end) return [0, 0];
  const cut = [value.slice(0, begin), value.slice(begin, end), value.slice(end)].join(mark);
  const [before, inside = ""] = (await ask("takenOut", cut, at("tags").checked)).text.split(mark);
  return [before.length, before.length + inside.length];
}

/** Show whether the answer on the page is out of date. */
function setBusy(isBusy) {
  at("models").ariaBusy = String(isBusy);
  if (isBusy) at("status").textContent = "translating …";
}

/** Compute what mattered where it is to be shown, and nothing else that was to be computed. */
async function explain() {
  ask("cancel");
  const lacking = views.filter((view) => view.lacksMattered);
  if (!lacking.length) return;
  at("status").textContent = "computing what mattered …";
  const done = await Promise.all(lacking.map((view) => view.explain()));
  if (done.every(Boolean)) at("status").textContent = "what mattered is computed";
}

/** Translate what is typed now; while the worker is busy, only the last call counts. */
function refresh() {
  isStale = true;
  ask("cancel");
  busy ??= (async () => {
    while (isStale) {
      isStale = false;
      const text = at("sentence").value, start = performance.now();
      const waiting = setTimeout(setBusy, PATIENCE, true);
      at("prefix").ariaInvalid = "false";
      try {
        const options = given();
        const line = await ask("takenOut", text, options.tags);
        const sentences = await rnnsearch.sentences(line.text);
        shownSentence = Math.max(0, Math.min(sentences.length - 1, shownSentence));
        await Promise.all(views.map((view) => view.update(text, line, sentences, options)));
        const took = Math.round(performance.now() - start);
        await glass.refresh();
        if (isStale) continue; // a view may have stopped before it was done
        setBusy(false);
        const cut = text.length === LONGEST_TEXT ? ` (cut to ${LONGEST_TEXT} characters)` : "";
        at("status").textContent = text.trim() ? `translated${cut} in ${took} ms` : "";
        explain();
      } catch (error) {
        setBusy(true); // the answer on the page belongs to another text
        at("status").textContent = error.message;
        at("prefix").ariaInvalid = String(Boolean(at("prefix").value));
      } finally {
        clearTimeout(waiting);
      }
    }
    at("undo").disabled = !past.length;
    at("reset").disabled = views.every((view) => view.isUntouched);
    busy = null;
  })();
  return busy;
}

/** Translate a new text, or with new options; the reader's changes are discarded. */
function begin() {
  past.length = 0;
  for (const view of views) view.forget();
  return refresh();
}

/** Show another checkpoint of the training run. */
function setMoment(number) {
  const [view] = views;
  view.number = number;
  view.forgetChanges(); // they belong to the previous checkpoint
  at("moment").value = number;
  at("moment-name").textContent = at("moment").ariaValueText = view.name;
}

/** Show the matrix of another sentence of the text. */
function chooseSentence(number) {
  shownSentence = number;
  for (const view of views) view.turn();
  return refresh();
}

async function undo() {
  const last = past.pop();
  if (!last) return;
  if (last.sentence !== shownSentence) await chooseSentence(last.sentence);
  const before = last.view.answer;
  last.view.touched = last.touched;
  last.view.forgetChanges();
  await refresh();
  last.view.markChanges(before);
}

at("sentence").addEventListener("input", async ({ target }) => {
  if (target.value.length > LONGEST_TEXT) setText(target.value); // else the cursor would move
  const { value, selectionStart } = target;
  const before = await ask("takenOut", value.slice(0, selectionStart), at("tags").checked);
  const upToHere = await rnnsearch.sentences(before.text);
  shownSentence = Math.max(0, upToHere.length - 1); // the sentence that is typed
  begin();
});
document.addEventListener("selectionchange", () => views.forEach((view) => view.mark()));
at("prefix").addEventListener("input", begin);
at("tags").addEventListener("change", begin);
at("beam").addEventListener("input", () => {
  at("beam-value").textContent = at("beam").value;
  begin();
});
at("moment")?.addEventListener("input", () => {
  setMoment(Number(at("moment").value));
  refresh();
});
at("examples")?.addEventListener("change", ({ target: choice }) => {
  if (!choice.value) return;
  setText(choice.value);
  choice.value = ""; // so that it can be chosen again
  shownSentence = 0;
  begin();
});
at("undo").addEventListener("click", undo);
at("reset").addEventListener("click", () => {
  for (const view of views) {
    view.touchedOf.forEach((touched, sentence) => past.push({ view, sentence, touched }));
    view.forget();
  }
  refresh();
});
addEventListener("keydown", (event) => {
  const isUndo = event.key === "z" && (event.ctrlKey || event.metaKey);
  if (!isUndo || event.target.matches("textarea, [type=text]")) return;
  event.preventDefault();
  undo();
});

for (const [id, by] of [["before", -1], ["after", 1]]) {
  at(id).addEventListener("click", () => {
    lookAt(glass.view, glass.step + by);
  });
}
at("close").addEventListener("click", () => {
  const { view, step } = glass;
  glass.view = null;
  glass.refresh();
  view.target.children[step]?.focus();
});

at("link").addEventListener("click", async () => {
  const named = new URLSearchParams({ beam: at("beam").value, text: at("sentence").value });
  if (at("prefix").value) named.set("prefix", at("prefix").value);
  if (!at("tags").checked) named.set("tags", "off");
  if (shownSentence) named.set("sentence", shownSentence + 1);
  if (at("moment")) named.set("moment", views[0].number + 1);
  if (glass.view) named.set("step", `${views.indexOf(glass.view)}.${glass.step + 1}`);
  const shown = [...views.some((view) => view.isMattering) ? ["mattered"] : [],
    ...views.some((view) => view.beam.open) ? ["beam"] : []];
  if (shown.length) named.set("show", shown);
  history.replaceState(null, "", `#${named}`);
  try {
    await navigator.clipboard.writeText(location.href);
    at("status").textContent = "link copied";
  } catch { // some browsers forbid it to a page on disk
    at("status").textContent = "not copied; the link is in the address bar";
  }
});

/** Restore the text, its sentence, the beam and what is shown from the address. */
async function followAddress() {
  const named = new URLSearchParams(location.hash.slice(1)), beam = Number(named.get("beam"));
  if (beam >= 1 && beam <= 12) at("beam").value = at("beam-value").textContent = Math.round(beam);
  setText(named.get("text") ?? (at("sentence").value || (facts.examples[0] ?? "")));
  at("prefix").value = named.get("prefix") ?? "";
  at("tags").checked = named.get("tags") !== "off";
  const place = (name) => (/^\d+$/.test(named.get(name) ?? "") ? named.get(name) - 1 : -1);
  shownSentence = Math.max(0, place("sentence"));
  if (at("moment") && facts.models[place("moment")]) setMoment(place("moment"));
  glass.view = null;
  const show = (named.get("show") ?? "").split(",");
  for (const view of views) {
    view.beam.open = show.includes("beam");
    if (view.hasAttention) view.setMattering(show.includes("mattered"));
  }
  await begin();
  const [, view, step] = /^(\d+)\.(\d+)$/.exec(named.get("step") ?? "") ?? [];
  if (views[view]?.answer && step > 0) lookAt(views[view], step - 1);
}
addEventListener("hashchange", followAddress);

at("back")?.addEventListener("click", ({ currentTarget: link }) => {
  link.hash = new URLSearchParams({ text: views[0].marked.parts.map(({ text }) => text).join("") });
});

at("large").addEventListener("click", ({ currentTarget: button }) => {
  const large = document.documentElement.toggleAttribute("data-large");
  button.setAttribute("aria-pressed", large);
  views.forEach((view) => view.redraw());
});

rnnsearch.ready.then(followAddress)
  .catch((error) => { at("status").textContent = error.message; });
