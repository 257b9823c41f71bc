// The tabs Errors, Logs, Code and Environment in Chromium, against a running server with the clusters of
// tests/seed.py, one of which still runs:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/cluster_tabs.spec.js
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { askServer, collectComplaints, openBrowser, settled, signIn } from "./browser.js";
import { serve } from "./serve.js";

const galvo = process.env.GALVO_URL ?? "http://127.0.0.1:8000";
const account = process.env.GALVO_ACCOUNT ?? "tidewater";
const user = { user: process.env.GALVO_USER ?? "ada", password: process.env.GALVO_PASSWORD ?? "" };

let site;
let browser;
let page;
let complaints;
let cluster;

const graphql = (query, variables) => askServer(page, account, query, variables);

const FACTS = `
  number startedAt endedAt
  errors(first: 100) { totalCount nodes { id at key group { id type } } }
  all: logs(first: 1) { totalCount }
  warnings: logs(first: 1, levels: ["WARNING", "ERROR", "CRITICAL"]) { totalCount }
  dropped { logs }
  computations(first: 100) { totalCount nodes { code { file line snippet { hash text } } } }
  environment { python packages { name version } }
  environmentMismatches { name }
`;

async function find(filter) {
  const { viewer } = await graphql(
    `query Found($filter: ClusterFilter) { viewer { account { clusters(first: 1, filter: $filter) {
      nodes { ${FACTS} }
    } } } }`,
    { filter },
  );
  return viewer.account.clusters.nodes[0];
}

async function open(path, of = cluster) {
  await page.goto(`${site.url}/${account}/clusters/${of.number}${path}`, { waitUntil: "domcontentloaded" });
  await page.waitForSelector("figure");
  await settled(page);
}

const heading = (name) => page.getByRole("heading", { name });
const whole = (value) => value.toLocaleString("en");

before(async () => {
  site = await serve({ galvo });
  browser = await openBrowser();
  page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(90_000);
  complaints = await collectComplaints(page);
  await signIn(page, site.url, user, `/${account}/clusters`);
  cluster = await find({ hasErrors: true, states: ["CLOSED"], search: "features-daily" });
  assert.ok(cluster, "tests/seed.py made no closed cluster features-daily with errors");
});

after(async () => {
  await browser?.close();
  site?.server.close();
});

describe("the errors of a cluster", () => {
  it("are grouped, with the number of each group here", async () => {
    await open("/errors");
    const expected = new Map();
    for (const { group } of cluster.errors.nodes) expected.set(group.id, (expected.get(group.id) ?? 0) + 1);
    const shown = await page
      .locator("[data-group]")
      .evaluateAll((items) =>
        items.map((item) => [item.dataset.group, /(\d+) here/.exec(item.textContent)?.[1]]),
      );
    assert.deepEqual(
      new Map(shown),
      new Map([...expected].map(([group, number]) => [group, String(number)])),
    );
  });

  it("have a traceback with the failing line, for the task that the address names", async () => {
    await open("/errors");
    const [group] = cluster.errors.nodes.filter((error) => error.group.type === "ValueError");
    await page.locator(`[data-group="${group.group.id}"]`).click();
    await page.getByText("parse_row", { exact: true }).first().waitFor();
    const code = await page.locator("pre").first().textContent();
    assert.match(code, /raise ValueError\(f"row \{number\} has 3 columns, 4 expected"\)$/);
    const table = page.getByRole("table", { name: "Failed tasks" });
    const own = cluster.errors.nodes.filter((error) => error.group.id === group.group.id);
    assert.equal(await table.getByRole("row").count(), own.length + 1);
    await table.getByRole("row").nth(2).click();
    await page.waitForURL((address) => address.searchParams.get("open") === own[1].id, {
      waitUntil: "commit",
    });
  });

  it("are those of the chosen part", async () => {
    const oldest = Date.parse(cluster.errors.nodes.at(-1).at);
    const to = new Date(oldest).toISOString();
    await open(`/errors?from=${cluster.startedAt}&to=${to}`);
    await page.getByText("No error in the chosen part").waitFor();
  });
});

describe("the logs of a cluster", () => {
  it("are counted, and keep only what is in sight in the document", async () => {
    await open("/logs");
    await heading(`${whole(cluster.all.totalCount)} log lines`).waitFor();
    assert.ok(cluster.all.totalCount > 200, `${cluster.all.totalCount} lines are too few for this test`);
    const table = page.getByRole("table", { name: "Log lines" });
    await page.getByText("100\u00a0lines are loaded.").waitFor();
    const scroller = table.locator("..");
    await scroller.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    await page.getByText("200\u00a0lines are loaded.").waitFor();
    assert.ok((await table.getByRole("row").count()) < 100);
  });

  it("say what the cluster discarded", async () => {
    await open("/logs");
    assert.ok(cluster.dropped.logs > 0, "log_lines of tests/seed.py stayed within the limit");
    await page.getByText(`The cluster discarded ${whole(cluster.dropped.logs)}\u00a0log lines`).waitFor();
  });

  it("are filtered by the server: by level, by text and by time", async () => {
    await open("/logs");
    await page.getByRole("radio", { name: "Warnings" }).click();
    await heading(
      `${whole(cluster.warnings.totalCount)} of ${whole(cluster.all.totalCount)} log lines`,
    ).waitFor();
    await settled(page);
    const levels = await page
      .locator("[data-level]")
      .evaluateAll((rows) => [...new Set(rows.map((row) => row.dataset.level))]);
    assert.deepEqual(
      levels.filter((level) => !["WARNING", "ERROR", "CRITICAL"].includes(level)),
      [],
    );
    await page.getByRole("radio", { name: "All" }).first().click();
    await page.getByRole("searchbox", { name: "Find in the lines" }).fill("ROW GROUP 3 of");
    await page.waitForURL(/q=ROW/, { waitUntil: "commit" });
    await page.getByText("row group 3 of 500").waitFor();
    assert.equal(await page.locator("[data-level]").count(), 1);
    await page.getByRole("searchbox").fill("");
    const to = new Date(Date.parse(cluster.startedAt) - 60_000).toISOString();
    const from = new Date(Date.parse(to) - 60_000).toISOString();
    await open(`/logs?from=${from}&to=${to}`);
    await page.getByText("No line passes the filter").waitFor();
    await page.getByRole("button", { name: /^Remove the filter Part/ }).click();
    await heading(`${whole(cluster.all.totalCount)} log lines`).waitFor();
  });

  it("grow while the cluster runs, until they are paused", async () => {
    const live = await find({ states: ["RUNNING", "IDLE"], search: "notebook" });
    assert.ok(live, "no cluster of tests/seed.py runs");
    await open("/logs", live);
    await page.getByText("New lines are shown with each report").waitFor();
    const first = page.locator("[data-level]").first();
    const before = await first.textContent();
    await page.waitForFunction(
      (text) => document.querySelector("[data-level]")?.textContent !== text,
      before,
    );
    await page.keyboard.press("l");
    await page.getByText("Paused. New lines are not shown.").waitFor();
    const paused = await first.textContent();
    await page.getByText(/^Up to \d+ are newer\.$/).waitFor();
    assert.equal(await first.textContent(), paused);
  });
});

describe("the code of a cluster", () => {
  it("is text, with the computations that ran it", async () => {
    await open("/code");
    const frames = cluster.computations.nodes.flatMap(({ code }) => code.flat());
    const hashes = new Set(frames.map(({ snippet }) => snippet.hash));
    assert.ok(hashes.size > 0, "tests/seed.py noted no code");
    await heading(new RegExp(`^${hashes.size}\\spieces? of code called Dask$`)).waitFor();
    const code = page.locator("pre");
    await code.waitFor();
    const shown = await code.locator("span[data-call]").count();
    const texts = frames.map(({ snippet }) => snippet.text.replace(/\n$/, "").split("\n").length);
    assert.ok(texts.includes(shown), `${shown} lines, expected one of ${texts}`);
  });

  it("is missing for a reason where Dask did not note it", async () => {
    await open("/code", await find({ search: "sensor-hourly" }));
    await page.getByText(/distributed\.diagnostics\.computations\.nframes/).waitFor();
  });
});

describe("the environment of a cluster", () => {
  it("has the scheduler's packages", async () => {
    await open("/environment");
    const table = page.getByRole("table", { name: "Packages" });
    const { packages, python } = cluster.environment;
    const rows = await table
      .getByRole("row")
      .evaluateAll((all) =>
        all.slice(1).map((row) => [...row.children].slice(0, 2).map((cell) => cell.textContent.trim())),
      );
    const expected = packages
      .filter(({ name }) => name !== "python")
      .map(({ name, version }) => [name, version ?? "not installed"]);
    assert.deepEqual(new Map(rows), new Map(expected));
    const processes = page.getByRole("table", { name: "Processes by software" });
    // Every final release has this ending, which says nothing.
    await processes
      .getByText(python.replace(/\.final\.0$/, ""), { exact: true })
      .first()
      .waitFor();
  });

  it("says whether anything differs", async () => {
    await open("/environment");
    const differing = cluster.environmentMismatches.length;
    const expected = differing === 0 ? /All processes have the same versions|No difference/ : /differ/;
    await heading(expected).waitFor();
  });
});

describe("the tabs", () => {
  it("have shown all of that without errors and without anything that the policy refuses", () => {
    assert.deepEqual(complaints, []);
  });
});
