// Stops Dask clusters from the list, in Chromium. The test starts the server and the clusters:
//   GALVO_BIN=target/debug/galvo GALVO_PYTHON=.venv/test-newest/bin/python node --test tests/stop.spec.js
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout } from "node:timers/promises";
import { violations } from "./axe.js";
import { askServer, collectComplaints, openBrowser } from "./browser.js";
import { serve } from "./serve.js";
import { DaskCluster, Server } from "./server.js";

const account = "default";
const REASON = "the budget of the month is used up";

let server;
let site;
let browser;
let page;
let complaints;
let live = [];

/** Returns the clusters by their numbers. */
async function clusters() {
  const { viewer } = await askServer(
    page,
    account,
    "{ viewer { account { clusters(first: 10) { nodes { number state desiredState } } } } }",
  );
  return new Map(viewer.account.clusters.nodes.map((cluster) => [cluster.number, cluster]));
}

before(async () => {
  server = new Server();
  const link = await server.start();
  const words = ["--user", "admin", "--account", account, "--scope", "ingest", "--label", "test"];
  const token = await server.command("token", "create", ...words);
  live = [new DaskCluster(server.url, token), new DaskCluster(server.url, token)];
  const registered = Promise.all(live.map((dask) => dask.command("register")));
  site = await serve({ galvo: server.url });
  browser = await openBrowser();
  page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(90_000);
  complaints = await collectComplaints(page);
  await page.goto(link.replace(server.url, site.url), { waitUntil: "domcontentloaded" });
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL((address) => !address.pathname.startsWith("/sign-in"));
  await registered;
});

after(async () => {
  await Promise.all(live.map((dask) => dask.close()));
  await browser?.close();
  site?.server.close();
  await server?.remove();
});

const state = (number) =>
  page.locator("[aria-rowindex]", { has: page.locator(`a[href$="/clusters/${number}"]`) });

describe("the list of clusters", () => {
  it("stops the selected clusters that live, and follows them until they are closed", async () => {
    await page.goto(`${site.url}/${account}/clusters`, { waitUntil: "domcontentloaded" });
    await page.getByRole("checkbox", { name: "Select the first 2 clusters" }).check();
    const running = [...(await clusters()).keys()];
    await page.getByRole("button", { name: "Stop 2 of 2…" }).click();
    const dialog = page.getByRole("dialog", { name: /^Stop 2.clusters$/ });
    await dialog.waitFor();
    const named = await dialog.locator("[aria-rowindex]").allTextContents();
    assert.deepEqual(named.map((text) => Number(/#(\d+)/.exec(text)[1])).toSorted(), running.toSorted());
    for (const text of named) assert.match(text, /admin2.workers$/);
    assert.deepEqual(await violations(page), []);
    await dialog.getByLabel("Reason, for the users of the clusters").fill(REASON);
    const asked = [];
    await page.route("**/graphql", async (route) => {
      const response = await route.fetch();
      const { data } = await response.json();
      if (data?.setDesiredState) {
        const { id } = data.setDesiredState.cluster;
        asked.push(
          (await askServer(page, account, "query ($id: ID!) { cluster(id: $id) { state } }", { id })).cluster,
        );
      }
      await route.fulfill({ response });
    });
    await dialog.getByRole("button", { name: /^Stop 2.clusters$/ }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(asked, [{ state: "CLOSING" }, { state: "CLOSING" }]);
    while ([...(await clusters()).values()].some(({ state }) => state !== "CLOSED")) await setTimeout(200);
    for (const { desiredState } of (await clusters()).values()) assert.equal(desiredState, "STOPPED");
    for (const number of running) await state(number).getByText("Closed", { exact: true }).waitFor();
    await page.getByRole("radio", { name: /^Closed.?2$/ }).waitFor();
    // Nothing that is selected can be stopped any more, and the button says why.
    const stop = page.getByRole("button", { name: "Stop 0 of 2…" });
    await stop.focus();
    assert.equal(await stop.getAttribute("title"), "None of the selected clusters still runs");
    await page.keyboard.press("Enter");
    assert.equal(await page.getByRole("dialog").count(), 0);
  });
});

it("nothing violated the policy, and no script failed", () => assert.deepEqual(complaints, []));
