// What pages with controls share: their parts by name, the switch between light and dark, files.
const at = (id) => document.getElementById(id);

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  at("theme").setAttribute("aria-pressed", theme === "dark");
}
const system = matchMedia("(prefers-color-scheme: dark)");
const followSystem = () => setTheme(system.matches ? "dark" : "light");
system.addEventListener("change", followSystem);
at("theme").addEventListener("click", () => {
  system.removeEventListener("change", followSystem); // the reader has chosen
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
});
followSystem();

/** Hand a file to the reader. */
function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Return the file of a picture that Heatmap.draw() has made, as "svg" or "png". */
async function fileOf({ text, width, height }, kind) {
  if (kind === "svg") return new Blob([text], { type: "image/svg+xml" });
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  // phones allow no more dots, and browsers no longer sides
  const scale = Math.min(3, Math.sqrt(16e6 / (width * height)), 16000 / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.floor(width * scale);
  canvas.height = Math.floor(height * scale);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}
