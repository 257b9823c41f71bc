// Measures the requests of the Overview and of the list of clusters of a large account:
//   node bench/large_account.js ROUNDS    GALVO_URL, GALVO_PASSWORD
// It opens each page in a browser and notes its requests. Then it repeats them, all at the same time as the page
// does, without the browser's work. Before and after the repetitions of a page it prints an event as JSON, and
// waits for a line on stdin after the first one.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { openBrowser, settled, signIn } from "../tests/browser.js";

const ACCOUNT = "default";
const PAGES = {
  Overview: "",
  "Overview of all time": "?range=all",
  Clusters: "/clusters",
  "Clusters by cost": "/clusters?sort=-cost",
  "Clusters of one name": "/clusters?q=pipeline-7",
};

// The page sends documents by their identifiers.
const documents = JSON.parse(
  readFileSync(new URL("../dist/persisted-documents.json", import.meta.url), "utf8"),
);

const rounds = Number(process.argv[2] ?? 5);
const galvo = process.env.GALVO_URL;
const lines = createInterface({ input: process.stdin });

const browser = await openBrowser();
try {
  const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
  await signIn(page, galvo, { user: "admin", password: process.env.GALVO_PASSWORD ?? "" }, `/${ACCOUNT}`);
  for (const [name, path] of Object.entries(PAGES)) {
    const requests = await requestsOf(page, `${galvo}/${ACCOUNT}${path}`);
    const cookie = (await page.context().cookies()).map((one) => `${one.name}=${one.value}`).join("; ");
    // A page without live updates does not disturb the measurement.
    await page.goto("about:blank");
    print({ event: "ready", page: name });
    await once(lines, "line");
    const seconds = [];
    const longest = { operation: "", seconds: 0 };
    for (let round = 0; round < rounds; round += 1) {
      const begun = performance.now();
      const times = await Promise.all(requests.map((request) => repeat(request, cookie)));
      seconds.push((performance.now() - begun) / 1_000);
      for (const [index, time] of times.entries()) {
        if (time > longest.seconds)
          Object.assign(longest, { seconds: time, operation: requests[index].operation });
      }
    }
    print({
      event: "measured",
      page: name,
      seconds,
      requests: requests.length,
      longest: longest.operation,
      longest_seconds: longest.seconds,
    });
  }
} finally {
  await browser.close();
  lines.close();
}

function print(event) {
  console.log(JSON.stringify(event));
}

/** Opens a page and returns its requests to the API. */
async function requestsOf(page, address) {
  const requests = [];
  const note = (request) => {
    if (request.method() !== "POST" || new URL(request.url()).pathname !== "/graphql") return;
    const headers = request.headers();
    const kept = ["content-type", "galvo-csrf", "galvo-account", "origin", "accept"].filter(
      (name) => headers[name] !== undefined,
    );
    requests.push({
      body: request.postData(),
      headers: Object.fromEntries(kept.map((name) => [name, headers[name]])),
      operation: operationOf(JSON.parse(request.postData() ?? "{}")),
    });
  };
  page.on("request", note);
  await page.goto(address, { waitUntil: "domcontentloaded" });
  await settled(page);
  page.off("request", note);
  return requests;
}

function operationOf(body) {
  const text = documents[body.documentId ?? body.extensions?.persistedQuery?.sha256Hash] ?? body.query ?? "";
  return /query (\w+)/.exec(text)?.[1] ?? "a request";
}

/** Sends a request again and returns its duration, in seconds. */
async function repeat({ body, headers }, cookie) {
  const begun = performance.now();
  const response = await fetch(`${galvo}/graphql`, { method: "POST", headers: { ...headers, cookie }, body });
  const answer = await response.json();
  // The sums of usage are left out of a list of more than 10,000 clusters.
  if (response.status !== 200 || !answer.data) {
    throw new Error(`${response.status}: ${JSON.stringify(answer.errors ?? answer).slice(0, 500)}`);
  }
  return (performance.now() - begun) / 1_000;
}
