// What can be done with a cluster at the head of its page, in Chromium, against a running server with the clusters
// of tests/seed.py, one of which still runs:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/cluster_header.spec.js
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
/** The clusters of one name: the last one with errors, the good one before it, and one that runs. */
let bad;
let good;
let live;

const graphql = (query, variables) => askServer(page, account, query, variables);
const button = (name) => page.getByRole("button", { name, exact: true });

async function open({ number }, path = "") {
  await page.goto(`${site.url}/${account}/clusters/${number}${path}`, { waitUntil: "domcontentloaded" });
  await page.waitForSelector("figure");
  await settled(page);
}

async function copied(name) {
  // The button of the copy before says so for a moment.
  await button("Copied").waitFor({ state: "detached" });
  await button(name).click();
  await button("Copied").waitFor();
  return page.evaluate(() => navigator.clipboard.readText());
}

before(async () => {
  site = await serve({ galvo });
  browser = await openBrowser();
  page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(90_000);
  complaints = await collectComplaints(page);
  await signIn(page, site.url, user, `/${account}/clusters`);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: site.url });
  const facts = `nodes { id number startedAt tags { key value } totals { workers errors peakWorkers peakThreads }
    environment { python packages { name version } }
    functions(first: 200) { prefix } logs(first: 1) { totalCount } }`;
  const { viewer } = await graphql(
    `{ viewer { account {
      bad: clusters(first: 1, filter: { hasErrors: true, states: [CLOSED], search: "features-daily" }) { ${facts} }
      good: clusters(first: 1, filter: { hasErrors: false, search: "features-daily" }) { ${facts} }
      live: clusters(first: 1, filter: { states: [RUNNING, IDLE], search: "notebook" }) { ${facts} }
    } } }`,
  );
  [bad, good, live] = ["bad", "good", "live"].map((name) => viewer.account[name].nodes[0]);
  assert.ok(bad && good && live, "tests/seed.py made no clusters features-daily and notebook");
});

after(async () => {
  await browser?.close();
  site?.server.close();
});

describe("the head of a cluster's page", () => {
  it("has the size and the software", async () => {
    await open(bad);
    const { peakWorkers, peakThreads } = bad.totals;
    await page
      .getByText(`${peakWorkers}\u00a0workers × ${peakThreads / peakWorkers}\u00a0threads, `)
      .waitFor();
    const { version } = bad.environment.packages.find(({ name }) => name === "distributed");
    const python = bad.environment.python.split(".").slice(0, 3).join(".");
    await page.getByText(`Dask ${version}, Python ${python}`, { exact: true }).waitFor();
  });

  it("counts what the tabs have", async () => {
    const tabs = page.getByRole("navigation", { name: "Parts of the cluster" });
    const lines = bad.logs.totalCount.toLocaleString("en");
    await tabs.getByRole("link", { name: `Logs ${lines}`, exact: true }).waitFor();
    await tabs.getByRole("link", { name: `Functions ${bad.functions.length}`, exact: true }).waitFor();
    await tabs.getByRole("link", { name: `Workers ${bad.totals.workers}`, exact: true }).waitFor();
    await tabs.getByRole("link", { name: `Errors ${bad.totals.errors}`, exact: true }).waitFor();
  });

  it("hands out the query and a program for a notebook", async () => {
    const [query, variables] = (await copied("Copy query")).split("# Variables:");
    assert.equal((await graphql(query, JSON.parse(variables))).cluster.id, bad.id);
    const program = await copied("Notebook");
    assert.match(program, /^import galvo$/m);
    assert.match(program, /^cluster = answer\["cluster"\]$/m);
    const given = /json\.loads\((".*")\)/.exec(program)[1];
    assert.deepEqual(JSON.parse(JSON.parse(given)), { id: String(bad.number) });
  });

  it("tags the cluster, which shows the tag at once", async () => {
    await button("Tag…").click();
    await page.fill("[role=dialog] input[placeholder='team:risk']", "looked-at:yes");
    await page.click("[role=dialog] button[type=submit]");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByText("looked-at:yes", { exact: true }).waitFor();
    const { cluster } = await graphql("query ($id: ID!) { cluster(id: $id) { tags { key value } } }", {
      id: bad.id,
    });
    const tags = new Set(cluster.tags.map(({ key, value }) => `${key}:${value}`));
    const before = bad.tags.map(({ key, value }) => `${key}:${value}`);
    assert.deepEqual(tags, new Set([...before, "looked-at:yes"]));
  });

  it("stops only what runs, and says before what is lost", async () => {
    await open(bad);
    assert.equal(await button("Stop…").count(), 0);
    await open(live);
    await button("Stop…").click();
    const dialog = page.getByRole("dialog", { name: "Stop 1\u00a0cluster" });
    await dialog.getByText(/^notebook #/).waitFor();
    await dialog.getByText("results that only the workers hold, are lost").waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    await dialog.waitFor({ state: "detached" });
  });

  it("has all of that in a menu on a phone, and the comparison below the answers", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await open(live);
    await button("Actions").click();
    // The library of menus is loaded in idle time.
    await page.getByRole("menuitem", { name: "Stop…" }).waitFor();
    const items = await page.getByRole("menuitem").allTextContents();
    assert.deepEqual(items, ["Copy link", "Copy query", "Notebook", "Tag…", "Stop…"]);
    await page.keyboard.press("Escape");
    await open(bad);
    const compare = await page.getByRole("link", { name: "Compare with last good" }).boundingBox();
    const answers = await page.getByRole("region", { name: "Answers" }).boundingBox();
    assert.ok(compare.y >= answers.y + answers.height && compare.width === answers.width);
    await page.setViewportSize({ width: 1440, height: 900 });
  });
});

describe("the keys of a cluster's page", () => {
  it("lead to the runs of the same name before and after it, in the same tab", async () => {
    await open(bad, "/workers?open=somebody&lanes=cpu");
    await page.keyboard.press("[");
    await page.waitForURL(new RegExp(`/clusters/${good.number}/workers`), { waitUntil: "commit" });
    assert.equal(new URL(page.url()).search, "?lanes=cpu");
    await page.getByRole("heading", { level: 1 }).waitFor();
    await settled(page);
    await page.keyboard.press("]");
    await page.waitForURL(new RegExp(`/clusters/${bad.number}/workers`), { waitUntil: "commit" });
    await settled(page);
    await page.keyboard.press("]");
    await page.getByRole("status").filter({ hasText: "No later run of this name" }).waitFor();
  });

  it("follow the live edge again after a part was chosen, and are listed", async () => {
    const part = `?from=${live.startedAt}&to=${new Date(Date.parse(live.startedAt) + 20_000).toISOString()}`;
    await open(live, `/workers${part}`);
    const follow = button("Live");
    assert.equal(await follow.getAttribute("aria-pressed"), "false");
    await page.keyboard.press("l");
    await page.waitForURL((address) => address.search === "", { waitUntil: "commit" });
    assert.equal(await follow.getAttribute("aria-pressed"), "true");
    await page.keyboard.press("?");
    const dialog = page.getByRole("dialog", { name: "Keys" });
    for (const text of ["Follow the whole run live", "Earlier run of this name", "Later run of this name"])
      await dialog.getByText(text, { exact: true }).waitFor();
    await page.keyboard.press("Escape");
  });

  it("have done all of that without errors and without anything that the policy refuses", () => {
    assert.deepEqual(complaints, []);
  });
});
