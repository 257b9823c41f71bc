// Runs before the first paint, as a classic script. It sets the theme, whose key src/ui/theme.ts writes, and asks for
// the session, which src/data/session.ts reads. After the first paint it starts the app, whose evaluation takes longer
// than all else on a slow machine, and loads the files of the page beside it. The build fills in the names.
(() => {
  try {
    const theme = localStorage.getItem("galvo.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // A browser that keeps no data of sites has the theme of the system.
  }

  const { app, pages } = document.currentScript.dataset;
  if (!app) return;
  const request = { headers: { Accept: "application/json" }, cache: "no-store" };
  window.galvoSession = fetch("api/v1/session", request);
  window.galvoSession.catch(() => undefined);

  let isStarted = false;
  function start() {
    if (isStarted) return;
    isStarted = true;
    const script = document.createElement("script");
    script.type = "module";
    script.crossOrigin = "";
    script.src = app;
    document.head.append(script);
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
  // The app needs the whole document. A tab in the background is not painted.
  document.addEventListener("DOMContentLoaded", () => {
    if (document.hidden) return start();
    document.addEventListener("visibilitychange", start, { once: true });
    requestAnimationFrame(() => setTimeout(start));
  });
})();
