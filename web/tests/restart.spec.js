// Open pages whose server is stopped and started again, in Chromium. The test starts the server and the Dask cluster:
//   GALVO_BIN=target/debug/galvo GALVO_PYTHON=.venv/test-newest/bin/python node --test tests/restart.spec.js
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout } from "node:timers/promises";
import { askServer, collectComplaints, openBrowser, settled } from "./browser.js";
import { serve } from "./serve.js";
import { DaskCluster, Server } from "./server.js";

const account = "default";

let server;
let site;
let browser;
let page;
let complaints;
let closed;

/** Reports a cluster with a failed task, waits until it is closed, and returns its number. */
async function reportCluster() {
  const words = ["--user", "admin", "--account", account, "--scope", "ingest", "--label", "test"];
  const dask = new DaskCluster(server.url, await server.command("token", "create", ...words));
  try {
    await dask.command("register");
    await dask.command("fail");
  } finally {
    await dask.close();
  }
  const query = "{ viewer { account { clusters(first: 1) { nodes { number state totals { errors } } } } } }";
  for (let waited = 0; waited < 60; waited += 1) {
    const { viewer } = await askServer(page, account, query);
    const [cluster] = viewer.account.clusters.nodes;
    if (cluster?.state === "CLOSED" && cluster.totals.errors > 0) return cluster.number;
    await setTimeout(500);
  }
  assert.fail("the cluster was not closed");
}

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
  await page.waitForURL((address) => !address.pathname.startsWith("/sign-in"));
  closed = await reportCluster();
});

after(async () => {
  await browser?.close();
  site?.server.close();
  await server?.remove();
});

const failure = () =>
  page.getByRole("alert").filter({ hasText: "The server cannot be reached." }).first().waitFor();
const bar = () => page.getByText("The server has not answered since");

/** Opens a page, and marks it, so that a reload would be noticed. */
async function open(path) {
  await page.goto(`${site.url}/${account}${path}`, { waitUntil: "domcontentloaded" });
  await settled(page);
  // The scripts of the other pages are loaded 2 s later, so that these open without the server.
  await page.waitForTimeout(4_000);
  await page.evaluate(() => {
    globalThis.wasNotReloaded = true;
  });
}

const assertNotReloaded = async () =>
  assert.equal(await page.evaluate(() => globalThis.wasNotReloaded), true);

describe("an open page whose server restarts", () => {
  it("of errors has its data again by itself, and the bar goes", async () => {
    await open("/errors");
    await server.stop();
    await page.getByRole("radio", { name: /^Resolved/ }).click();
    await failure();
    await bar().waitFor();
    await server.start();
    await page.getByText(/^No resolved error was seen/).waitFor();
    await bar().waitFor({ state: "detached" });
    assert.equal(await page.getByRole("alert").count(), 0);
    await assertNotReloaded();
  });

  it("of a closed cluster has its data again by itself", async () => {
    await open(`/clusters/${closed}`);
    await server.stop();
    await page
      .getByRole("navigation", { name: "Parts of the cluster" })
      .getByRole("link", { name: /^Errors/ })
      .click();
    await failure();
    await server.start();
    await page.locator("[data-group]", { hasText: "ValueError" }).waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
    await assertNotReloaded();
  });

  it("behind a proxy that answers meanwhile does the same", async () => {
    await open("/errors");
    const isAway = /\/graphql$|\/api\/v1\/session$/;
    await page.route(isAway, (route) => route.fulfill({ status: 502, body: "Bad Gateway" }));
    await page.getByRole("radio", { name: /^Resolved/ }).click();
    await page.getByRole("alert").filter({ hasText: "The errors did not load" }).waitFor();
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.getByText(/^No resolved error was seen/).waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
    await assertNotReloaded();
  });
});

it("broke no rule of the policy and raised no error", () => {
  const expected = /Failed to load resource|WebSocket connection/;
  assert.deepEqual(
    complaints.filter((complaint) => !expected.test(complaint)),
    [],
  );
});
