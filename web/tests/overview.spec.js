// The overview and the errors in Chromium, against a running server with real clusters:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/overview.spec.js
// GALVO_USER (ada) is an owner of GALVO_ACCOUNT (tidewater). The server has the clusters of tests/seed.py.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { violations } from "./axe.js";
import { askServer, collectComplaints, openBrowser, signIn } from "./browser.js";
import { serve } from "./serve.js";

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
    await page.waitForFunction(
      (id) => document.querySelector("[aria-current=true][data-group]")?.dataset.group !== id,
      group,
    );
    assert.deepEqual(await violations(page), []);
  });

  it("broke no rule of the policy and raised no error", () => assert.deepEqual(complaints, []));
});
