// What pages with controls share: their parts by name, and the switch between light and dark.
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
