// The overview and the errors in Chromium, against a running server with real clusters:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/overview.spec.js
// GALVO_USER (ada) is an owner of GALVO_ACCOUNT (tidewater). The server has the clusters of tests/seed.py.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout } from "node:timers/promises";
import { violations } from "./axe.js";
import { askServer, collectComplaints, copiedLink, later, openBrowser, signIn } from "./browser.js";
import { serve } from "./serve.js";
import { DaskCluster } from "./server.js";

const galvo = process.env.GALVO_URL ?? "http://127.0.0.1:8000";
const account = process.env.GALVO_ACCOUNT ?? "tidewater";
const user = { user: process.env.GALVO_USER ?? "ada", password: process.env.GALVO_PASSWORD ?? "" };

let site;
let browser;
let page;
let complaints;

before(async () => {
  site = await serve({ galvo });
  browser = await openBrowser();
  page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
  page.setDefaultTimeout(60_000);
  complaints = await collectComplaints(page);
  await signIn(page, site.url, user, `/${account}/clusters`);
});

after(async () => {
  await browser?.close();
  site?.server.close();
});

/** Asks the server itself for fields of the account. */
const graphql = async (query) => (await askServer(page, account, query)).viewer.account;

const plain = (text) => text.replaceAll("\u00a0", " ");
const day = (offset) => new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10);

describe("overview", () => {
  it("has the totals of the server, and margins that add up to them", async () => {
    await page.goto(`${site.url}/${account}?by=errors`, { waitUntil: "domcontentloaded" });
    await page.waitForSelector("[role=grid]");
    const told = await graphql(
      `{ viewer { account { statistics(from: "${day(-27)}", to: "${day(1)}") { clusters usage { tasks errors } } } } }`,
    );
    const shown = await page.$$eval("dl > div", (items) =>
      Object.fromEntries(
        items.map((item) => [item.querySelector("dt").textContent, item.querySelector("dd").textContent]),
      ),
    );
    assert.equal(shown.Clusters, told.statistics.clusters.toLocaleString("en"));
    assert.equal(shown.Errors, told.statistics.usage.errors.toLocaleString("en"));
    const grid = await page.$eval("[role=grid]", (element) => {
      const number = (text) => Number(text.replaceAll(",", ""));
      const rows = [...element.querySelectorAll("[role=row]")];
      const [sums, ...others] = rows.map((row) => [...row.querySelectorAll("[role=gridcell]")]);
      return {
        // Each sum of a column reads "Tue 24 Nov: 3", and the last cell has the total.
        columns: sums.slice(0, -1).map((cell) => number(cell.textContent.split(": ").at(-1))),
        total: number(sums.at(-1).lastElementChild.textContent),
        rows: others
          .filter((cells) => cells.length > 0)
          .map((cells) => ({
            cells: cells
              .slice(0, -1)
              .map((cell) => number(cell.getAttribute("aria-label").split(", ").at(-1))),
            sum: number(cells.at(-1).textContent),
          })),
      };
    });
    const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);
    const errors = Number(told.statistics.usage.errors);
    assert.ok(errors > 0, "the seed has clusters with errors");
    assert.ok(grid.rows.length > 0 && grid.columns.length > 1);
    for (const { cells, sum } of grid.rows) {
      assert.equal(cells.length, grid.columns.length);
      assert.equal(sum, sumOf(cells));
    }
    assert.deepEqual(
      grid.columns,
      grid.columns.map((_, index) => sumOf(grid.rows.map(({ cells }) => cells[index]))),
    );
    assert.equal(grid.total, sumOf(grid.columns));
    assert.equal(grid.total, sumOf(grid.rows.map(({ sum }) => sum)));
    assert.equal(grid.total, errors);
  });

  it("restores the chosen cell from the address", async () => {
    await page.goto(`${site.url}/${account}?by=errors&user=${user.user}&from=${day(0)}`, {
      waitUntil: "domcontentloaded",
    });
    await page.waitForSelector("[role=grid] [data-chosen=true]");
    assert.equal(await page.$$eval("[data-chosen=true]", (cells) => cells.length), 1);
    assert.deepEqual(await violations(page), []);
  });
});

describe("an idle cluster on the overview", () => {
  let dask;
  let cluster;

  const row = () =>
    page.getByRole("table", { name: "Live clusters" }).getByRole("row", { name: /\bfirst\b/ });
  const stop = () => row().getByRole("button", { name: "Stop first…", exact: true });

  before(async () => {
    dask = new DaskCluster(galvo, process.env.DASK_GALVO__TOKEN);
    await dask.command("register");
    // Without any task it would be starting.
    await dask.command("work");
    const filter = 'filter: { search: "first", states: [STARTING, RUNNING, IDLE] }';
    while (!cluster) {
      const { clusters } = await graphql(
        `{ viewer { account { clusters(first: 1, ${filter}) { nodes { id number state } } } } }`,
      );
      cluster = clusters.nodes.find(({ state }) => state === "IDLE");
      await setTimeout(200);
    }
  });

  after(() => dask?.close());

  it("cannot be stopped by members who are no admins, which the buttons say", async () => {
    await page.route("**/graphql", async (route) => {
      const response = await route.fetch();
      const answer = await response.json();
      if (answer.data?.viewer?.scopes) answer.data.viewer.scopes = ["INGEST", "READ"];
      await route.fulfill({ response, json: answer });
    });
    await page.goto(`${site.url}/${account}`, { waitUntil: "domcontentloaded" });
    for (const button of [stop(), page.getByRole("button", { name: /^Stop \d+ idle…$/ })]) {
      await button.waitFor();
      assert.equal(await button.isDisabled(), true);
      assert.equal(
        await button.getAttribute("title"),
        "Owners and admins of the account can change clusters",
      );
    }
    await page.unrouteAll({ behavior: "ignoreErrors" });
  });

  it("is stopped by a dialog that names it, its user and what is lost", async () => {
    await page.goto(`${site.url}/${account}`, { waitUntil: "domcontentloaded" });
    const all = page.getByRole("button", { name: /^Stop \d+ idle…$/ });
    await all.click();
    const dialog = page.getByRole("dialog", { name: /^Stop \d+\s+clusters?$/ });
    const named = dialog.getByRole("table", { name: "Clusters" }).getByRole("row", { name: /\bfirst #/ });
    await named.getByText(user.user, { exact: true }).waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await stop().click();
    await named.getByText("2\u00a0workers").waitFor();
    await dialog.getByText("results that only the workers hold, are lost").waitFor();
    assert.equal(await dialog.getByRole("row").count(), 2, "the head, and the cluster alone");
    assert.deepEqual(await violations(page), []);
    await dialog.getByRole("button", { name: "Stop 1\u00a0cluster", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    // The scheduler closes with its next report.
    await row()
      .getByText(/^Stopping$|^Closing$/)
      .or(page.getByText("Nothing is live"))
      .first()
      .waitFor();
    const { node } = await askServer(
      page,
      account,
      "query ($id: ID!) { node(id: $id) { ... on Cluster { desiredState } } }",
      {
        id: cluster.id,
      },
    );
    assert.equal(node.desiredState, "STOPPED");
  });
});

describe("a copied link", () => {
  // The year is shown only if it is not that of today.
  const dates = async (target) =>
    (await target.getByText(/^\w{3} \d+ \w{3}.* – .*, UTC$/).textContent()).replace(/ \d{4}/g, "");

  it("of the overview shows the same days later, and the relative address does not", async () => {
    await page.goto(`${site.url}/${account}`, { waitUntil: "domcontentloaded" });
    const shown = await dates(page);
    const link = await copiedLink(page);
    assert.equal(link.pathname + link.search, `/${account}?range=${day(-27)}/${day(0)}`);
    assert.equal(new URL(page.url()).search, "");
    await later(page, async (other) => {
      await other.goto(link.href, { waitUntil: "domcontentloaded" });
      assert.equal(await dates(other), shown);
      const told = await graphql("{ viewer { account { clusters(filter: {}) { totalCount } } } }");
      const total = other.locator("dl > div", { has: other.locator("dt", { hasText: /^Clusters$/ }) });
      assert.equal(await total.locator("dd").first().textContent(), String(told.clusters.totalCount));
      await other.getByRole("button", { name: /–/ }).click();
      await other.getByRole("menuitem", { name: "Last 28 days" }).click();
      await total.locator("dd", { hasText: /^0$/ }).first().waitFor();
      assert.notEqual(await dates(other), shown);
    });
  });

  it("of an error names the group and the days", async () => {
    await page.goto(`${site.url}/${account}/errors?range=7d`, { waitUntil: "domcontentloaded" });
    const group = await page.locator("[data-group][aria-current]").getAttribute("data-group");
    const link = await copiedLink(page);
    assert.equal(link.pathname, `/${account}/errors/${encodeURIComponent(group)}`);
    assert.equal(link.search, `?range=${day(-6)}/${day(0)}`);
    await later(page, async (other) => {
      await other.goto(link.href, { waitUntil: "domcontentloaded" });
      await other.locator(`[data-group="${group}"][aria-current]`).waitFor();
      await other.getByText(/^\d+\s+errors in 7 days, among/).waitFor();
      await other.getByRole("heading", { name: /^\d+\s+errors on 1 of 7\s+days$/ }).waitFor();
    });
  });
});

describe("errors", () => {
  it("lists the open groups with the numbers of the server", async () => {
    const told = await graphql(
      "{ viewer { account { errorGroups(status: [OPEN, REGRESSED], first: 50) { totalCount nodes { id type occurrenceCount } } } } }",
    );
    await page.goto(`${site.url}/${account}/errors`, { waitUntil: "domcontentloaded" });
    await page.waitForSelector("[data-group]");
    const shown = await page.$$eval("[data-group]", (links) =>
      links.map((link) => [
        link.dataset.group,
        ...[...link.querySelectorAll("strong")].map((word) => word.textContent),
      ]),
    );
    const expected = told.errorGroups.nodes.map(({ id, type, occurrenceCount }) => [
      id,
      type,
      Number(occurrenceCount).toLocaleString("en"),
    ]);
    assert.deepEqual(shown.toSorted(), expected.toSorted());
    assert.ok(expected.length > 0);
  });

  it("opens the user's frames of a traceback, and moves with the keys j and k", async () => {
    const link = page.locator("[data-group]", { hasText: "ValueError" });
    await link.click();
    await page.waitForSelector("text=your code");
    const group = await link.getAttribute("data-group");
    assert.equal(new URL(page.url()).pathname, `/${account}/errors/${encodeURIComponent(group)}`);
    assert.match(
      plain(await page.locator("section", { hasText: "Traceback" }).last().textContent()),
      /ValueError/,
    );
    await page.keyboard.press("k");
    await page.waitForFunction((id) => {
      const chosen = document.querySelector("[aria-current][data-group]");
      return chosen !== null && chosen.dataset.group !== id;
    }, group);
    assert.deepEqual(await violations(page), []);
  });

  it("says that no error passes the filter, and not that there was none", async () => {
    await page.goto(`${site.url}/${account}/errors?type=NoSuchError`, { waitUntil: "domcontentloaded" });
    await page.getByText("No open error passes the filter").waitFor();
  });

  it("names the users of a group, and leads to the comparison with the run before", async () => {
    const { errorGroups } = await graphql(
      `{ viewer { account { errorGroups(first: 50) { nodes { id type clusterCount
        occurrences(first: 100) { nodes { cluster { number user { name } } taskGroup { prefix } } }
      } } } } }`,
    );
    const group = errorGroups.nodes.find(({ type }) => type === "ValueError");
    await page.goto(`${site.url}/${account}/errors/${encodeURIComponent(group.id)}`, {
      waitUntil: "domcontentloaded",
    });
    const { nodes } = group.occurrences;
    const users = [...new Set(nodes.map(({ cluster }) => cluster.user.name))].sort().join(", ");
    await page.getByRole("heading", { name: `ValueError in ${nodes[0].taskGroup.prefix}` }).waitFor();
    const clusters = page.locator("dl > div", { has: page.locator("dt", { hasText: /^Clusters$/ }) });
    await clusters.getByText(`of ${users}`, { exact: true }).waitFor();
    assert.equal(await clusters.locator("dd").textContent(), `${group.clusterCount} of ${users}`);
    const current = page.getByRole("navigation", { name: "Breadcrumbs" }).locator("span[aria-current=page]");
    assert.equal(await current.textContent(), "ValueError");
    // The changes stand below, and not in the sentence a second time.
    const changes = page.locator("section", { hasText: "What changed when it began" }).last();
    const finding = await changes.locator("strong").textContent();
    assert.match(finding, /^\d+ things? changed since cluster \d+$/);
    const rows = await changes.locator("p").count();
    // The first two rows are the finding, and what it was compared with.
    assert.equal(rows - 2, Number.parseInt(finding, 10));
    await page.getByRole("link", { name: "Compare", exact: true }).click();
    await page.waitForURL((address) => address.pathname === `/${account}/compare`, { waitUntil: "commit" });
    const { searchParams } = new URL(page.url());
    const { clusters: good } = await graphql(
      `{ viewer { account { clusters(first: 1, filter: { hasErrors: false, search: "features-daily" }) {
        nodes { number }
      } } } }`,
    );
    assert.equal(searchParams.get("a"), String(good.nodes[0].number));
    assert.equal(searchParams.get("b"), String(nodes.at(-1).cluster.number));
  });

  it("broke no rule of the policy and raised no error", () => assert.deepEqual(complaints, []));
});
