// Runs before the first paint, as a classic script. src/ui/theme.ts writes the key.
(() => {
  const theme = localStorage.getItem("galvo.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
