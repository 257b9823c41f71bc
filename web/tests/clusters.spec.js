// The list of clusters, the search and the first run in Chromium, against a running server with real clusters:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/clusters.spec.js
// GALVO_USER (ada) is an owner of GALVO_ACCOUNT (tidewater). The server has the clusters of tests/seed.py.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { violations } from "./axe.js";
import { askServer, collectComplaints, copiedLink, later, openBrowser, settled, signIn } from "./browser.js";
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
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  page = await context.newPage();
  page.setDefaultTimeout(60_000);
  complaints = await collectComplaints(page);
  await signIn(page, site.url, user, `/${account}/clusters`);
});

after(async () => {
  await browser?.close();
  site?.server.close();
});

const graphql = (query, variables) => askServer(page, account, query, variables);

async function open(search = "") {
  await page.goto(`${site.url}/${account}/clusters${search}`, { waitUntil: "domcontentloaded" });
  await page.waitForSelector("[role=table] [aria-rowindex]");
}

const numbers = () =>
  page.$$eval("[role=table][aria-label=Clusters] [aria-rowindex] a", (links) =>
    links.map((link) => Number(link.getAttribute("href").split("/").at(-1))),
  );

const heads = async () => {
  const texts = await page
    .getByRole("table", { name: "Clusters" })
    .getByRole("columnheader")
    .allTextContents();
  return texts.map((text) => text.trim());
};

async function noViolation() {
  assert.deepEqual(await violations(page), []);
}

describe("the list of clusters", () => {
  it("shows the clusters in the server's order, the newest first", async () => {
    await open();
    const { viewer } = await graphql("{ viewer { account { clusters(first: 50) { nodes { number } } } } }");
    const shown = await numbers();
    assert.ok(shown.length > 0);
    assert.deepEqual(shown, viewer.account.clusters.nodes.map(({ number }) => number).slice(0, shown.length));
  });

  it("fits 1,024 pixels with the columns of that width", async () => {
    await page.setViewportSize({ width: 1024, height: 900 });
    await open();
    const widths = await page.$eval("[role=table][aria-label=Clusters]", ({ parentElement: box }) => [
      box.scrollWidth,
      box.clientWidth,
    ]);
    assert.equal(widths[0], widths[1]);
    assert.ok(!(await heads()).includes("Memory"));
    await page.setViewportSize({ width: 1440, height: 900 });
    await open();
  });

  it("counts the states as the server does, and they add up to all", async () => {
    const shownByTabs = async () =>
      Object.fromEntries(
        await page.$$eval("[role=radiogroup][aria-label=State] [role=radio]", (radios) =>
          radios.map((radio) => [
            radio.firstChild.textContent,
            Number(radio.querySelector("span")?.textContent),
          ]),
        ),
      );
    const answered = async () => {
      const { viewer } = await graphql(
        `{ viewer { account { all: clusters { totalCount } closed: clusters(filter: { states: [CLOSED] }) { totalCount } } } }`,
      );
      return [viewer.account.all.totalCount, viewer.account.closed.totalCount];
    };
    // Clusters of other tests start and end meanwhile, and the page follows.
    let shown;
    let answer;
    const deadline = Date.now() + 60_000;
    do {
      await page.waitForTimeout(200);
      [answer, shown] = [await answered(), await shownByTabs()];
    } while (!isDeepStrictEqual([shown.All, shown.Closed], answer) && Date.now() < deadline);
    assert.deepEqual([shown.All, shown.Closed], answer);
    const { All, ...parts } = shown;
    assert.equal(
      Object.values(parts).reduce((sum, count) => sum + count, 0),
      All,
    );
  });

  it("says that the numbers by state did not load, and still filters by state", async () => {
    let fails = true;
    await page.route("**/graphql", async (route) => {
      const response = await route.fetch();
      const answer = await response.json();
      if (!fails || !answer.data?.viewer?.account?.starting) return route.fulfill({ response });
      await route.fulfill({ response, json: { errors: [{ message: "The disk is full." }] } });
    });
    await open();
    const alert = page
      .getByRole("alert")
      .filter({ hasText: "The numbers of clusters by state did not load" });
    await alert.waitFor();
    await page.getByRole("radio", { name: "Closed" }).click();
    await page.waitForURL((address) => address.search === "?state=CLOSED");
    // A report of the live cluster asks for the numbers again, too, so the click must not wait for anything.
    fails = false;
    await alert.getByRole("button", { name: "Retry" }).dispatchEvent("click");
    await alert.waitFor({ state: "detached" });
    await page.unrouteAll({ behavior: "wait" });
  });

  it("sums up all clusters that pass, which is the sum of the rows", async () => {
    await open("?state=CLOSED&cols=name,errors,tasks,workers,user");
    const { viewer } = await graphql(
      `{ viewer { account { clusters(filter: { states: [CLOSED] }, first: 100) { totalCount nodes { user { id } totals { errors tasks peakWorkers } } aggregates { errors tasks } } } } }`,
    );
    const { nodes, aggregates, totalCount } = viewer.account.clusters;
    assert.ok(totalCount <= 100, "the seed has fewer clusters than a page");
    const total = (name) => nodes.reduce((sum, { totals }) => sum + totals[name], 0);
    assert.equal(aggregates.errors, total("errors"));
    const sums = await page.$$eval("[role=table] > [role=row]:nth-of-type(2) [role=cell]", (cells) =>
      cells.map((cell) => cell.textContent),
    );
    const users = new Set(nodes.map(({ user }) => user.id)).size;
    assert.deepEqual(sums.slice(2), [
      ...[total("errors"), total("tasks"), total("peakWorkers")].map((value) => value.toLocaleString("en")),
      users === 1 ? "1\u00a0user" : `${users}\u00a0users`,
    ]);
  });

  it("filters at the server, and the address restores it", async () => {
    await open("?q=FEATURES&errors=yes&sort=-tasks");
    const { viewer } = await graphql(
      `{ viewer { account { clusters(filter: { search: "features", hasErrors: true }, orderBy: { field: TASKS }) { nodes { number } } } } }`,
    );
    assert.deepEqual(
      await numbers(),
      viewer.account.clusters.nodes.map(({ number }) => number),
    );
    const header = page.locator("[role=columnheader][aria-sort=descending]");
    assert.equal(await header.count(), 0, "the column of the order is not among those by default");
    await page.click('button[aria-label="Remove the filter Errors yes"]');
    await page.waitForURL((address) => !address.search.includes("errors"));
    assert.equal(new URL(page.url()).search, "?q=FEATURES&sort=-tasks");
    await page.goBack();
    await page.waitForURL((address) => address.search.includes("errors=yes"));
  });

  it("adds a filter by its form, and refuses what it cannot read", async () => {
    await open();
    await page.click("section[aria-label=Filters] button:has-text('Lasted')");
    await page.waitForFunction(() => document.activeElement?.tagName === "INPUT");
    await page.keyboard.type("long");
    await page.keyboard.press("Enter");
    await page.waitForSelector("input[aria-invalid=true]");
    await page.fill("input[aria-invalid=true]", "1s");
    await page.keyboard.press("Enter");
    await page.waitForURL((address) => address.search === "?lasted=1s");
  });

  it("says how many clusters pass without each filter when none does", async () => {
    await page.goto(`${site.url}/${account}/clusters?q=no-such-cluster&state=LOST`);
    await page.waitForSelector("text=No cluster passes all filters");
    await page.waitForSelector("text=/\\d+ without/");
    const { viewer } = await graphql(
      `{ viewer { account { lost: clusters(filter: { states: [LOST] }) { totalCount } named: clusters(filter: { search: "no-such-cluster" }) { totalCount } } } }`,
    );
    const texts = await page.$$eval("main span", (spans) =>
      spans.map((span) => span.textContent).filter((text) => /^\s\d+ without$/.test(text)),
    );
    assert.deepEqual(texts, [
      ` ${viewer.account.named.totalCount} without`,
      ` ${viewer.account.lost.totalCount} without`,
    ]);
  });

  it("selects, compares and opens by the keyboard alone", async () => {
    await open("?state=CLOSED");
    const [first, second] = await numbers();
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.waitForSelector("[role=toolbar][aria-label='2 selected']");
    const stop = page.locator("[role=toolbar] button:has-text('Stop 0 of 2')");
    assert.equal(await stop.isDisabled(), true);
    assert.equal(await stop.getAttribute("title"), "None of the selected clusters still runs");
    await page.keyboard.press("c");
    // The older one is the base.
    await page.waitForURL((address) => address.pathname.endsWith("/compare"), { waitUntil: "commit" });
    const compared = new URL(page.url()).searchParams;
    assert.deepEqual([compared.get("a"), compared.get("b")], [String(second), String(first)]);
    await page.goBack();
    await page.waitForSelector("[role=toolbar][aria-label='2 selected']");
    await page.keyboard.press("Escape");
    await page.waitForSelector("[role=toolbar]", { state: "detached" });
    // The row may still have the focus, if the list had not left the page yet.
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.waitForURL(new RegExp(`/clusters/${first}`), { waitUntil: "commit" });
  });

  it("takes keys after a row was ticked with the mouse", async () => {
    await open("?state=CLOSED");
    await page.locator("[role=table] [aria-rowindex] input[type=checkbox]").first().check();
    await page.waitForSelector("[role=toolbar][aria-label='1 selected']");
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.waitForSelector("[role=toolbar][aria-label='2 selected']");
    await page.keyboard.press("Escape");
    await page.waitForSelector("[role=toolbar]", { state: "detached" });
  });

  it("adds a tag to the selected clusters, keeps their others, and removes it", async () => {
    await open("?state=CLOSED");
    const chosen = (await numbers()).slice(0, 2).map(String);
    const tagsOf = async () => {
      const query = "query ($id: ID!) { cluster(id: $id) { tags { key value } } }";
      const answers = await Promise.all(chosen.map((id) => graphql(query, { id })));
      return answers.map(({ cluster }) => cluster.tags);
    };
    const without = (tags) => tags.filter(({ key }) => key !== "checked");
    const before = (await tagsOf()).map(without);
    for (const _ of chosen) {
      await page.keyboard.press("j");
      await page.keyboard.press("x");
    }
    const dialog = page.getByRole("dialog", { name: /^Tag 2.clusters$/ });
    const change = async (tag) => {
      await dialog.getByLabel("Tag", { exact: true }).fill(tag);
      await dialog.locator("button[type=submit]").click();
      await dialog.waitFor({ state: "detached" });
    };
    await page.getByRole("button", { name: "Tag…" }).click();
    await change("checked:yes");
    const added = before.map((tags) => [...tags, { key: "checked", value: "yes" }]);
    const sorted = (tags) => tags.toSorted((a, b) => (a.key < b.key ? -1 : 1));
    assert.deepEqual(await tagsOf(), added.map(sorted));
    await page.getByRole("button", { name: "Tag…" }).click();
    await dialog.getByRole("radio", { name: "Remove a tag" }).click();
    await change("checked");
    assert.deepEqual(await tagsOf(), before.map(sorted));
    await page.click("[role=toolbar] button[aria-label='Clear the selection']");
  });

  it("keeps the chosen columns in the address, so that a link shows the same", async () => {
    await open("?cols=name,errors&state=CLOSED");
    const before = await heads();
    await page.getByRole("button", { name: /^Columns 2 of/ }).click();
    await page.getByRole("checkbox", { name: "Tasks", exact: true }).click();
    await page.waitForURL((address) => address.searchParams.get("cols") === "name,errors,tasks");
    await page.keyboard.press("Escape");
    const chosen = await heads();
    assert.equal(chosen.length, before.length + 1);
    // Another browser has saved nothing.
    await page.evaluate(() => localStorage.removeItem("galvo.clusters.columns"));
    await page.reload({ waitUntil: "domcontentloaded" });
    await page.waitForSelector("[role=table] [aria-rowindex]");
    assert.deepEqual(await heads(), chosen);
    assert.equal(new URL(page.url()).searchParams.get("state"), "CLOSED");
  });

  it("is copied as a link that shows the same clusters later", async () => {
    await open("?started=24h&state=CLOSED");
    const shown = await numbers();
    const link = await copiedLink(page);
    assert.match(
      link.search,
      /^\?started=\d{4}-\d\d-\d\dT\d\d:\d0:00Z\/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ&state=CLOSED$/,
    );
    assert.equal(new URL(page.url()).search, "?started=24h&state=CLOSED");
    await later(page, async (other) => {
      await other.goto(link.href, { waitUntil: "domcontentloaded" });
      await other.waitForSelector("[role=table] [aria-rowindex]");
      const links = other.locator("[role=table][aria-label=Clusters] [aria-rowindex] a");
      const found = await links.evaluateAll((all) =>
        all.map((one) => Number(one.getAttribute("href").split("/").at(-1))),
      );
      assert.deepEqual(found, shown);
      await other.getByText(/^\w{3} \d+ \w{3}.*, \d\d:\d0:00 – .* UTC$/).waitFor();
      await other.goto(page.url(), { waitUntil: "domcontentloaded" });
      await other.getByText("No cluster passes").waitFor();
    });
  });

  it("keeps the columns and their order in this browser, until they are as at first", async () => {
    await open();
    const first = await heads();
    await page.getByRole("button", { name: /^Columns 13 of/ }).click();
    await page.getByRole("checkbox", { name: "Flags", exact: true }).click();
    await page.getByRole("button", { name: "Move Errors to the left" }).click();
    await page.waitForURL((address) => address.search.endsWith("cost,errors,finished"));
    // An address without columns shows those of this browser.
    await open();
    const kept = await heads();
    assert.deepEqual(kept, [...first.slice(0, -3), "Errors", "Finished"]);
    await page.getByRole("button", { name: /^Columns 12 of/ }).click();
    await page.getByRole("button", { name: "As at first" }).click();
    await page.waitForURL((address) => address.search === "");
    await open();
    assert.deepEqual(await heads(), first);
  });

  it("keeps a list under a name, opens it and forgets it", async () => {
    const views = () => page.getByRole("button", { name: /^(Views 1|Save view)$/ });
    await open();
    await views().click();
    const save = page.getByRole("button", { name: "Save", exact: true });
    assert.equal(await save.isDisabled(), true, "there is nothing to save");
    await open("?q=features&sort=-tasks&cols=name,tasks");
    const shown = [await heads(), await numbers()];
    await views().click();
    await page.getByRole("textbox", { name: "Name of a new view" }).fill("Features");
    await save.click();
    await open();
    await views().click();
    await page.getByRole("button", { name: "Features", exact: true }).click();
    await page.waitForURL((address) => address.search === "?q=features&sort=-tasks&cols=name,tasks");
    await settled(page);
    assert.deepEqual([await heads(), await numbers()], shown);
    await views().click();
    await page.getByRole("button", { name: "Remove the view Features" }).click();
    await page.reload({ waitUntil: "domcontentloaded" });
    await page.getByRole("button", { name: "Save view" }).waitFor();
  });

  it("exports as CSV what the server has for all that pass, in their order", async () => {
    await open("?state=CLOSED&sort=-tasks");
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      (async () => {
        await page.getByRole("button", { name: "Export" }).click();
        await page.getByRole("menuitem", { name: /^CSV/ }).click();
      })(),
    ]);
    const [head, ...lines] = csvOf(readFileSync(await download.path(), "utf8"));
    const { viewer } = await graphql(
      `{ viewer { account { clusters(filter: { states: [CLOSED] }, orderBy: { field: TASKS }, first: 100) { totalCount nodes {
        id number schedulerId name state closeReason user { name } tags { key value }
        durationSeconds totals { tasks tasksErred errors bytes peakWorkers computeSeconds threadSeconds }
        usage { idleSeconds utilization causes { cause seconds } costs { amount currency basis } }
      } } } } }`,
    );
    const { nodes, totalCount } = viewer.account.clusters;
    assert.equal(lines.length, totalCount);
    for (const [index, node] of nodes.entries()) {
      const cells = Object.fromEntries(head.map((name, column) => [name, lines[index][column]]));
      for (const [name, value] of flat(node)) {
        const expected = value === null ? "" : value;
        const isText = typeof expected === "string";
        assert.deepEqual(isText ? cells[name] : JSON.parse(cells[name]), expected, name);
      }
    }
  });

  it("has no accessibility violation", async () => {
    await open();
    await noViolation();
  });
});

/** Returns the fields of a line of CSV, by RFC 4180. */
function csvOf(text) {
  const lines = text.trimEnd().split(/\r?\n(?=(?:[^"]*"[^"]*")*[^"]*$)/);
  return lines.map((line) =>
    [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
      ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain,
    ),
  );
}

/** Returns the values with the names of the export's columns: `totals.tasks`. Lists stay together. */
function flat(node, prefix = "") {
  return Object.entries(node).flatMap(([name, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? flat(value, `${prefix}${name}.`)
      : [[prefix + name, value]],
  );
}

describe("the search", () => {
  it("finds a cluster by a part of its name, and by its number", async () => {
    await open();
    const { viewer } = await graphql(
      `{ viewer { account { clusters(filter: { search: "mesh" }, first: 1) { nodes { number } } } } }`,
    );
    const { number } = viewer.account.clusters.nodes[0];
    for (const text of ["mesh", `#${number}`]) {
      await page.keyboard.press("Control+k");
      await page.fill("[role=combobox]", text);
      await page.waitForSelector(`[role=option][id$="cluster-${number}"]`);
      await page.waitForSelector(`[role=option][aria-selected=true][id$="cluster-${number}"]`);
      await noViolation();
      await page.keyboard.press("Enter");
      await page.waitForURL(new RegExp(`/clusters/${number}`));
      await open();
    }
  });

  it("opens with a slash, leads to lists and closes with Escape", async () => {
    await page.keyboard.press("/");
    await page.fill("[role=combobox]", "clusters with err");
    await page.keyboard.press("Enter");
    await page.waitForURL((address) => address.search === "?errors=yes");
    await page.keyboard.press("/");
    await page.waitForSelector("[role=combobox]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("[role=combobox]", { state: "detached" });
  });
});

it("a style element is refused by the policy, and would fail these tests", async () => {
  const before = complaints.length;
  const told = page.waitForEvent("console", (message) => message.text().startsWith("CSP style-src"));
  await page.evaluate(() => {
    const style = document.createElement("style");
    style.textContent = "h1 { display: none }";
    document.head.append(style);
  });
  await told;
  assert.ok(complaints.splice(before).some((complaint) => complaint.startsWith("console: CSP style-src")));
  assert.equal(await page.locator("h1").isVisible(), true);
});

it("nothing violated the policy, and no script failed", () => {
  assert.deepEqual(complaints, []);
});
