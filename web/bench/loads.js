// Pages that are opened, each time by a browser with a session and empty caches.
import { longest, median, result } from "./results.js";
import { ACCOUNT } from "./site.js";
import { serveEmptyPage } from "./static.js";

const AIMS = { paint: 500, usable: 1_200, large: 1_500 };
const CPU_SLOWDOWN = 4;
const NETWORK = { offline: false, latency: 40, downloadThroughput: 10e6 / 8, uploadThroughput: 10e6 / 8 };
const SETTLED_MS = 1_500;

/**
 * Runs in the page. Notes when it was painted with its navigation and its heading, so that it answers the reader, and
 * when nothing on it was loading any more.
 */
function watch() {
  window.times = { usable: null, complete: null };
  const afterPaint = (name) => {
    if (window.times[name] !== null) return;
    window.times[name] = Number.POSITIVE_INFINITY;
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        if (window.times[name] !== null) window.times[name] = performance.now();
      };
      port2.postMessage(null);
    });
  };
  const look = () => {
    if (!document.querySelector("h1") || !document.querySelector("nav a")) return;
    afterPaint("usable");
    if (document.querySelector("[aria-busy=true]")) window.times.complete = null;
    else afterPaint("complete");
  };
  new MutationObserver(look).observe(document, {
    subtree: true,
    childList: true,
    attributes: true,
    attributeFilter: ["aria-busy"],
  });
}

/** Opens the address and returns the milliseconds until its first contentful paint, until it is usable and complete. */
async function load(page, address, isSlow) {
  if (isSlow) {
    const session = await page.context().newCDPSession(page);
    await session.send("Network.enable");
    await session.send("Network.emulateNetworkConditions", NETWORK);
    await session.send("Emulation.setCPUThrottlingRate", { rate: CPU_SLOWDOWN });
  }
  await page.addInitScript(watch);
  await page.goto(address, { waitUntil: "commit" });
  await page.waitForFunction(
    (settled) => window.times.complete !== null && performance.now() - window.times.complete > settled,
    SETTLED_MS,
    { timeout: 60_000, polling: 250 },
  );
  return page.evaluate(() => ({
    paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
    ...window.times,
  }));
}

/** Opens the two addresses in turns, and returns the times of each. */
async function loadInTurns(site, addresses, count, isSlow) {
  const times = addresses.map(() => []);
  // The first load of each warms the server.
  for (let round = 0; round <= count; round++) {
    for (const [index, address] of addresses.entries()) {
      const page = await site.newPage();
      const time = await load(page, address, isSlow);
      await page.context().close();
      if (round > 0) times[index].push(time);
    }
  }
  return times;
}

const ms = (value) => `${Math.round(value)} ms`;

function loadResult(benchmark, what, [times, others], reference, aim) {
  const found = times.map((time) => time[what]);
  const other = median(others.map((time) => time[what]));
  result({
    benchmark,
    figure: `${ms(median(found))} (median of ${found.length} loads, longest ${ms(longest(found))})`,
    reference: `${ms(other)} for ${reference}`,
    ratio: median(found) / other,
    ...(aim ? { aim: `<= ${aim} ms`, held: median(found) <= aim } : {}),
  });
}

export async function measureFirstView(site, { loads }) {
  await site.smallCluster();
  const empty = await serveEmptyPage();
  try {
    const times = await loadInTurns(site, [`${site.url}/${ACCOUNT}`, empty.url], loads, true);
    const name = "dashboard, first view on a slow machine and network";
    loadResult(`${name}: first contentful paint`, "paint", times, "an empty page", AIMS.paint);
    loadResult(`${name}: usable`, "usable", times, "an empty page", AIMS.usable);
    loadResult(`${name}: complete`, "complete", times, "an empty page");
  } finally {
    empty.close();
  }
}

export async function measureLargeCluster(site, { loads }) {
  const large = await site.largeCluster();
  const small = await site.smallCluster();
  const addresses = [large, small].map(({ number }) => `${site.url}/${ACCOUNT}/clusters/${number}`);
  const times = await loadInTurns(site, addresses, loads, false);
  const { workers } = large.totals;
  const groups = large.taskGroups.totalCount;
  loadResult(
    `dashboard, a cluster of ${workers.toLocaleString("en")} workers and ${groups.toLocaleString("en")} task groups: complete`,
    "complete",
    times,
    `a cluster of ${small.totals.workers} workers`,
    AIMS.large,
  );
}
