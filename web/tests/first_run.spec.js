// From an empty account to a cluster that reports while its page is open, in Chromium. The test starts the
// server and the Dask cluster:
//   GALVO_BIN=target/debug/galvo GALVO_PYTHON=.venv/test-newest/bin/python node --test tests/first_run.spec.js
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout } from "node:timers/promises";
import { violations } from "./axe.js";
import { askServer, collectComplaints, fillSignIn, openBrowser } from "./browser.js";
import { serve } from "./serve.js";
import { DaskCluster, Server } from "./server.js";

const account = "default";
const password = "correct horse battery";

let server;
let site;
let browser;
let page;
let complaints;
let dask;
let token;

const cluster = async (fields) => {
  const { viewer } = await askServer(
    page,
    account,
    `{ viewer { account { clusters(first: 1) { nodes { ${fields} } } } } }`,
  );
  return viewer.account.clusters.nodes[0];
};

const heading = (name) => page.getByRole("heading", { name });

/** Opens a tab of the cluster in the open page. */
const openTab = (name) =>
  page
    .getByRole("navigation", { name: "Parts of the cluster" })
    .getByRole("link", { name: new RegExp(`^${name}`) })
    .click();

before(async () => {
  server = new Server();
  const link = await server.start();
  site = await serve({ galvo: server.url });
  browser = await openBrowser();
  page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(90_000);
  complaints = await collectComplaints(page);
  await page.goto(link.replace(server.url, site.url), { waitUntil: "domcontentloaded" });
  await page.getByRole("button", { name: "Sign in" }).click();
});

after(async () => {
  await dask?.close();
  await browser?.close();
  site?.server.close();
  await server?.remove();
});

describe("an empty account", () => {
  it("shows how to connect the first cluster, and waits for it", async () => {
    await heading("Connect your first cluster").waitFor();
    await page.getByText("Waiting for the first report").waitFor();
    assert.deepEqual(await violations(page), []);
  });

  it("creates a token that can only report", async () => {
    await page.getByRole("button", { name: "Create a token" }).click();
    await page.getByText("Shown only this once").waitFor();
    token = await page
      .locator("code", { hasText: /^[\w-]{40,}$/ })
      .first()
      .textContent();
    await page.locator("pre", { hasText: token }).waitFor();
  });

  it("turns into the cluster within a second of its first report", async () => {
    dask = new DaskCluster(server.url, token);
    const reported = (async () => {
      while (!(await cluster("id"))) await setTimeout(50);
      return Date.now();
    })();
    const shown = page
      .getByRole("heading", { name: "first", level: 1 })
      .waitFor()
      .then(() => Date.now());
    await dask.command("register");
    const late = (await shown) - (await reported);
    assert.ok(late < 1000, `${late} ms`);
    await page.waitForURL(/\/default\/clusters\/\d+$/, { waitUntil: "commit" });
  });
});

describe("the open page of a cluster that reports", () => {
  it("shows a task that fails, with its traceback", async () => {
    await dask.command("fail");
    await page.getByText("1\u00a0task failed").first().waitFor();
    await openTab("Errors");
    await page.locator("[data-group]", { hasText: "ValueError" }).click();
    const code = page.locator("pre", { hasText: "raise ValueError" }).first();
    assert.match(
      await code.textContent(),
      /raise ValueError\(f"row \{number\} has 3 columns, 4 expected"\)$/,
    );
  });

  it("shows a worker that dies as a mark in the time line, which opens what is known of its end", async () => {
    await openTab("Workers");
    await heading("2\u00a0workers").waitFor();
    await dask.command("kill");
    const mark = page
      .locator("figure")
      .getByRole("button", { name: /disappeared/ })
      .first();
    await mark.waitFor();
    await heading(/^1.worker of \d died$/).waitFor();
    const { workers } = await cluster("workers(first: 10) { nodes { name end { kind processingKeys } } }");
    const [dead] = workers.nodes.filter(({ end }) => end?.kind === "LOST");
    await mark.click();
    const post = page.getByRole("region", { name: `Worker ${dead.name}` });
    // The task that failed with the worker may have its mark at the same place: then there is a menu.
    const item = page.getByRole("menuitem", { name: /disappeared/ });
    await post.or(item).first().waitFor();
    if (await item.isVisible()) await item.click();
    await post.getByText(dead.end.processingKeys[0]).waitFor();
  });

  it("has the numbers of Dask and of the server", async () => {
    await dask.command("work");
    const own = await dask.command("numbers");
    const counts = Object.entries(own).map(([prefix, { succeeded, erred }]) => [prefix, [succeeded, erred]]);
    assert.deepEqual(Object.fromEntries(counts), {
      count_up: [40, 0],
      parse_row: [0, 1],
      exhaust_memory: [0, 1],
    });
    await openTab("Functions");
    const rows = page.getByRole("table", { name: "Functions" }).getByRole("row");
    const all = page.getByRole("cell", { name: "40", exact: true });
    await rows.filter({ hasText: "count_up" }).filter({ has: all }).waitFor();
    const cells = await rows.evaluateAll((found) =>
      found.slice(1).map((row) => [...row.children].map((cell) => cell.textContent)),
    );
    const shown = new Map(cells.map(([prefix, , , , tasks, failed]) => [prefix, [tasks, failed]]));
    const { functions, totals } = await cluster(
      "functions(first: 10) { prefix tasks tasksErred computeSeconds } totals { tasksSucceeded tasksErred }",
    );
    assert.deepEqual([totals.tasksSucceeded, totals.tasksErred], [40, 2]);
    for (const { prefix, tasks, tasksErred, computeSeconds } of functions) {
      assert.deepEqual(shown.get(prefix), [String(tasks), String(tasksErred)], prefix);
      assert.equal(tasksErred, own[prefix].erred, prefix);
      const { compute } = own[prefix];
      assert.ok(
        Math.abs(computeSeconds - compute) < 1e-3,
        `${prefix}: ${computeSeconds} s, Dask ${compute} s`,
      );
    }
  });
});

describe("a page whose server goes away", () => {
  it("says so, and goes on by itself once the server is back", async () => {
    await server.stop();
    await page.getByText(/^Reconnecting since \d\d:\d\d/).waitFor();
    await server.start();
    await page.getByText(/^Live · /).waitFor();
    await dask.command("fail");
    await page.getByText("3\u00a0tasks failed").first().waitFor();
  });

  it("leads to the sign-in page and back when the session is ended", async () => {
    const path = new URL(page.url()).pathname;
    // The user has signed in with a link so far. A new password ends the sessions.
    await server.setPassword("admin", password);
    await page.waitForURL(/\/sign-in\?return_to=/, { waitUntil: "commit" });
    assert.equal(new URL(page.url()).searchParams.get("return_to").split("?")[0], path);
    await fillSignIn(page, { user: "admin", password });
    assert.equal(new URL(page.url()).pathname, path);
    await page.getByRole("heading", { name: "first", level: 1 }).waitFor();
    await page.getByText(/^Live · /).waitFor();
  });
});

describe("the open page of a cluster whose token is revoked", () => {
  it("says that the cluster does not report any more", async () => {
    await server.command("token", "revoke", token.split("-")[0]);
    await page.getByText(/^last heard \d\d:\d\d:\d\d UTC$/).waitFor();
    await page.getByText("Lost", { exact: true }).first().waitFor();
  });
});

it("broke no rule of the policy and raised no error", () => {
  const expected = /Failed to load resource|WebSocket connection/;
  assert.deepEqual(
    complaints.filter((complaint) => !expected.test(complaint)),
    [],
  );
});
