// The page of a live cluster that stays open.
import { readFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import { result } from "./results.js";
import { ACCOUNT } from "./site.js";

const AIM_MB = 20;
/** A cluster reports every 15 seconds unless it is configured otherwise. */
const UPDATES_PER_HOUR = 240;
const WARM_UP = 40;
const PATIENCE_SECONDS = 60;
const MB = 1e6;

const DOCUMENTS = new URL("../src/data/gql/persisted-documents.json", import.meta.url);

/** Returns the identifier of the page's subscription, and its text with an update for each report. */
async function fastSubscription() {
  const documents = Object.entries(JSON.parse(await readFile(DOCUMENTS, "utf8")));
  const [id, text] = documents.find(([, found]) => found.startsWith("subscription LiveCluster("));
  const fast = text.replace("everySeconds: 10,", "everySeconds: 1,");
  if (fast === text) throw new Error("the page's subscription has another interval");
  return { id, text: fast };
}

/** Runs in the page: subscribes with the text instead of the document. */
function subscribeTo({ id, text }) {
  const { send } = WebSocket.prototype;
  WebSocket.prototype.send = function (message) {
    const sent = JSON.parse(message);
    if (sent.payload?.documentId !== id) return send.call(this, message);
    const { variables } = sent.payload;
    send.call(this, JSON.stringify({ ...sent, payload: { query: text, variables } }));
  };
}

/** Counts the live updates and the answers that the page receives. */
function count(page) {
  const received = { updates: 0, answers: 0 };
  page.on("websocket", (socket) =>
    socket.on("framereceived", ({ payload }) => {
      if (JSON.parse(payload).type === "next") received.updates += 1;
    }),
  );
  page.on("requestfinished", (request) => {
    if (new URL(request.url()).pathname === "/graphql") received.answers += 1;
  });
  return received;
}

/** Returns what the page holds after the garbage has been collected. */
async function held(session) {
  for (let round = 0; round < 3; round++) {
    await session.send("HeapProfiler.collectGarbage");
    await setTimeout(200);
  }
  const { usedSize, embedderHeapUsedSize, backingStorageSize } = await session.send("Runtime.getHeapUsage");
  const { nodes, jsEventListeners } = await session.send("Memory.getDOMCounters");
  return { bytes: usedSize + embedderHeapUsedSize + backingStorageSize, usedSize, nodes, jsEventListeners };
}

export async function measureOpenPage(site, { updates }) {
  const { dask, number } = await site.smallCluster();
  const page = await site.newPage();
  await page.addInitScript(subscribeTo, await fastSubscription());
  const received = count(page);
  const session = await page.context().newCDPSession(page);

  let isOver = false;
  const working = (async () => {
    while (!isOver) await dask.command("work");
  })();
  /** Waits until the page has received so many updates. */
  const reached = async (wanted) => {
    let last = { updates: received.updates, at: Date.now() };
    while (received.updates < wanted) {
      if (received.updates > last.updates) last = { updates: received.updates, at: Date.now() };
      if (Date.now() - last.at > PATIENCE_SECONDS * 1000) throw new Error("the page gets no updates");
      await setTimeout(100);
    }
  };
  try {
    await page.goto(`${site.url}/${ACCOUNT}/clusters/${number}`, { waitUntil: "domcontentloaded" });
    await reached(WARM_UP);
    const before = { ...(await held(session)), ...received };
    const begun = Date.now();
    await reached(before.updates + updates);
    const after = { ...(await held(session)), ...received };
    const seconds = (Date.now() - begun) / 1000;
    const count = after.updates - before.updates;
    const grown = (after.bytes - before.bytes) / MB;
    const perHour = (grown / count) * UPDATES_PER_HOUR;
    result({
      benchmark: "dashboard, the page of a live cluster that stays open for an hour",
      figure:
        `grows by ${perHour.toFixed(1)} MB in the ${UPDATES_PER_HOUR} updates of an hour` +
        ` (measured ${grown.toFixed(1)} MB in ${count} updates and ${after.answers - before.answers} answers` +
        ` within ${Math.round(seconds)} s; ${after.nodes - before.nodes} DOM nodes and` +
        ` ${after.jsEventListeners - before.jsEventListeners} listeners more)`,
      reference: `${(before.bytes / MB).toFixed(1)} MB and ${before.nodes} DOM nodes after ${before.updates} updates`,
      ratio: after.bytes / before.bytes,
      aim: `<= ${AIM_MB} MB`,
      held: perHour <= AIM_MB,
    });
  } finally {
    isOver = true;
    await working;
    await page.context().close();
  }
}
