// Measures the dashboard in Chromium:
//   GALVO_BIN=target/release/galvo GALVO_PYTHON=.venv/test-newest/bin/python EMBEDDED=1 node web/bench/dashboard.js
//   [--loads=9] [--rounds=20] [--updates=240] [--only=first-view,lanes,…]
// Without EMBEDDED=1, the pages are those of `dist`.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { build } from "vite";
import { collectComplaints, openBrowser } from "../tests/browser.js";
import { measureCrosshair, measureFlame, measureLanes, measureTable } from "./charts.js";
import { measureFirstView, measureLargeCluster } from "./loads.js";
import { measureOpenPage } from "./open_page.js";
import { withServer } from "./site.js";
import { serveDirectory } from "./static.js";

const ON_PAGE = {
  lanes: measureLanes,
  crosshair: measureCrosshair,
  flame: measureFlame,
  table: measureTable,
};
const ON_SERVER = {
  "first-view": measureFirstView,
  "large-cluster": measureLargeCluster,
  "open-page": measureOpenPage,
};

const { values } = parseArgs({
  options: {
    loads: { type: "string", default: "9" },
    rounds: { type: "string", default: "20" },
    updates: { type: "string", default: "240" },
    only: { type: "string", default: [...Object.keys(ON_SERVER), ...Object.keys(ON_PAGE)].join() },
  },
});
const options = {
  loads: Number(values.loads),
  rounds: Number(values.rounds),
  updates: Number(values.updates),
};
const names = values.only.split(",");
const chosen = (all) => Object.entries(all).flatMap(([name, run]) => (names.includes(name) ? [run] : []));

/** Measures the components on a page that is built for it. */
async function measureComponents(browser) {
  const directory = await mkdtemp(join(tmpdir(), "galvo-bench-"));
  const configFile = new URL("vite.config.ts", import.meta.url).pathname;
  await build({ configFile, build: { outDir: directory }, logLevel: "warn" });
  const site = await serveDirectory(directory);
  try {
    const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
    const complaints = await collectComplaints(page);
    await page.goto(site.url);
    await page.waitForFunction(() => window.bench);
    for (const measure of chosen(ON_PAGE)) await measure(page, options);
    await page.close();
    if (complaints.length > 0) throw new Error(complaints.join("\n"));
  } finally {
    site.close();
    await rm(directory, { recursive: true });
  }
}

const browser = await openBrowser();
try {
  if (chosen(ON_SERVER).length > 0) {
    await withServer(browser, async (site) => {
      for (const measure of chosen(ON_SERVER)) await measure(site, options);
    });
  }
  if (chosen(ON_PAGE).length > 0) await measureComponents(browser);
} finally {
  await browser.close();
}
