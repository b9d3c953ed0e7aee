// One alignment in a frame, such as a notebook's.
const data = JSON.parse(document.getElementById("data").textContent);
const view = new Heatmap(document.getElementById("heatmap"));
const [sentence] = data.sentences;
view.set({ inverted: data.inverted });
view.show(decoded(sentence, data));
document.getElementById("mattered")?.addEventListener("change", ({ target: box }) => {
  view.set({ mode: box.checked ? "mattered" : "soft" });
});

/** Make the frame as high as its content, if there is one and this script may reach it. */
function fit() {
  if (frameElement) frameElement.style.height = `${document.body.scrollHeight + 2}px`;
}
new ResizeObserver(fit).observe(document.body);
