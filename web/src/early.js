// Runs before the first paint and before the other scripts are there, as a classic script. It sets the theme, whose
// key src/ui/theme.ts writes, asks for the session, which src/data/session.ts reads, and loads the files of the page
// beside the first view instead of after it. The build fills in their names.
(() => {
  const theme = localStorage.getItem("galvo.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;

  const { pages } = document.currentScript.dataset;
  if (!pages) return;
  const request = { headers: { Accept: "application/json" }, cache: "no-store" };
  window.galvoSession = fetch("api/v1/session", request);
  window.galvoSession.catch(() => undefined);

  function load() {
    const base = new URL(document.baseURI).pathname;
    const [, page = "", item] = location.pathname.slice(base.length).split("/");
    for (const file of JSON.parse(pages)[item ? `${page}/` : page] ?? []) {
      const link = document.createElement("link");
      link.href = file;
      link.crossOrigin = "";
      link.rel = file.endsWith(".css") ? "preload" : "modulepreload";
      if (link.rel === "preload") link.as = "style";
      document.head.append(link);
    }
  }
  // After the first paint, which it would delay on a slow machine.
  requestAnimationFrame(() => setTimeout(load));
})();
