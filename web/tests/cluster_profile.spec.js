// The tabs Profile, Cost and Privacy and the comparison in Chromium, against a running server with the clusters
// of tests/seed.py:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/cluster_profile.spec.js
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
let bad;
let good;
let small;

const graphql = (query, variables) => askServer(page, account, query, variables);

async function go(path) {
  await page.goto(`${site.url}/${account}${path}`, { waitUntil: "domcontentloaded" });
  await settled(page);
}

const open = (cluster, tab) => go(`/clusters/${cluster.number}/${tab}`);
const sum = (values) => values.reduce((total, value) => total + value, 0);
const plain = (text) => text.replaceAll("\u00a0", " ");
const addressed = (expected) =>
  page.waitForURL((address) => expected.test(address.search), { waitUntil: "commit" });

/** Returns the cells of the table that "As table" shows. */
async function sheet(name) {
  const cells = await page.getByRole("region", { name, exact: true }).locator("tbody tr").all();
  return Promise.all(cells.map((row) => row.locator("td").allTextContents()));
}

async function asTable(name) {
  await page.getByRole("button", { name: `Take away ${name}`, exact: true }).click();
  await page.getByRole("menuitem", { name: "As table" }).click();
}

before(async () => {
  site = await serve({ galvo });
  browser = await openBrowser();
  page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(90_000);
  complaints = await collectComplaints(page);
  await signIn(page, site.url, user, `/${account}/clusters`);
  const { viewer } = await graphql(
    `query Closed { viewer { account {
      runs: clusters(first: 10, filter: { states: [CLOSED], search: "features-daily" }) { nodes { ...Run } }
      small: clusters(first: 1, filter: { states: [CLOSED], search: "sensor-hourly" }) { nodes { ...Run } }
    } } }
    fragment Run on Cluster {
      number totals { tasksErred } startedAt
      usage { threadSeconds causes { cause seconds } costs { amount currency basis causes { cause amount } } }
      functions(first: 1000) { prefix costs { amount } }
      privacy { classes { class sent withheld dropped accepted } }
      profile(minShare: 0.001) { samples columns { parents self totals frames } frames { function file } }
    }`,
  );
  const { runs } = viewer.account;
  bad = runs.nodes.find(({ totals }) => totals.tasksErred > 0);
  good = runs.nodes.find(({ totals }) => totals.tasksErred === 0);
  [small] = viewer.account.small.nodes;
  assert.ok(bad && good && small, "tests/seed.py made no closed clusters features-daily and sensor-hourly");
  assert.ok(bad.profile && !small.profile, "tests/seed.py made no profile of features-daily");
});

after(async () => {
  await browser?.close();
  site?.server.close();
});

describe("the profile of a cluster", () => {
  it("draws all samples, and finds a function in them", async () => {
    await open(bad, "profile");
    const { samples, frames, columns } = bad.profile;
    const words = samples.toLocaleString("en");
    await page.getByRole("img", { name: `Flame graph of ${words} samples` }).waitFor();
    await page.keyboard.press("f");
    await page.waitForFunction(() => document.activeElement?.tagName === "INPUT");
    await page.keyboard.type("python_loop");
    await addressed(/q=python_loop/);
    const isHit = ({ function: name, file }) => `${name}\n${file}`.includes("python_loop");
    const hits = columns.frames.map((frame) => isHit(frames[frame]));
    const covered = [];
    let found = 0;
    columns.parents.forEach((parent, node) => {
      const isBelow = parent !== null && covered[parent];
      if (hits[node] && !isBelow) found += columns.totals[node];
      covered.push(hits[node] || isBelow);
    });
    assert.ok(found > 0, "python_loop was not sampled");
    const status = plain(await page.getByRole("status").filter({ hasText: "on the path of" }).textContent());
    assert.equal(
      status,
      `1 function on the path of ${((found / samples) * 100).toFixed(1)} % of the samples`,
    );
  });

  it("enlarges a function by keyboard, and keeps it in the address", async () => {
    await open(bad, "profile");
    const graph = page.getByRole("img", { name: /^Flame graph/ });
    await graph.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await addressed(/open=[0-9a-f]+/);
    await page.getByRole("navigation", { name: "Callers" }).waitFor();
    await page.reload({ waitUntil: "domcontentloaded" });
    await page.getByRole("button", { name: "Show everything" }).waitFor();
    await graph.focus();
    await page.keyboard.press("Escape");
    await addressed(/^$/);
  });

  it("has a table whose own samples add up to all samples", async () => {
    await open(bad, "profile?table=yes");
    const { samples } = bad.profile;
    const table = page.getByRole("table", { name: "Functions by own time" });
    await table.waitFor();
    const [head, sums] = await table.getByRole("row").all();
    assert.deepEqual(await head.getByRole("columnheader").allTextContents(), [
      "Function",
      "Share",
      "Own",
      "With calls",
      "Own samples",
    ]);
    assert.equal(await sums.getByRole("cell").last().textContent(), samples.toLocaleString("en"));
    const height = await page.locator("[role=table] [role=rowgroup]").evaluate((body) => body.scrollHeight);
    const rows = Math.round(height / 34);
    const cells = await table.getByRole("rowgroup").getByRole("row").all();
    const shown = await Promise.all(cells.map((row) => row.getByRole("cell").last().textContent()));
    const own = sum(shown.map((text) => Number(text.replaceAll(",", ""))));
    if (cells.length === rows) assert.equal(own, samples);
    else assert.ok(own > 0 && own < samples, `${own} of ${samples} in ${cells.length} of ${rows} rows`);
  });

  it("says how to turn profiles on where there are none", async () => {
    await open(small, "profile");
    await page.getByText("No profile was sent by this cluster").waitFor();
    await page.getByText("galvo.profile.transmit").waitFor();
  });
});

describe("the cost of a cluster", () => {
  it("adds up by activity, by function and by hour", async () => {
    await open(bad, "cost");
    const [cost] = bad.usage.costs;
    assert.ok(Math.abs(sum(cost.causes.map(({ amount }) => amount)) - cost.amount) < 1e-9);
    for (const name of ["activity", "function", "hour"]) {
      await asTable(`cost-by-${name}`);
      const rows = await sheet(`Cost by ${name}`);
      const shown = sum(rows.map(([, amount]) => Number(amount)));
      assert.ok(Math.abs(shown - cost.amount) < 1e-9, `${shown} by ${name}, ${cost.amount} in all`);
    }
    const functions = sum(bad.functions.map(({ costs }) => sum(costs.map(({ amount }) => amount))));
    const [, rest] = (await sheet("Cost by function")).find(([name]) => name === "no function");
    assert.ok(Math.abs(Number(rest) - (cost.amount - functions)) < 1e-9);
  });

  it("says that no price is set, and uses one as soon as there is", async () => {
    await open(bad, "cost");
    await page.getByText("No price is set", { exact: true }).waitFor();
    await page.getByText("galvo rate set 0.05 USD").waitFor();
    await page.getByRole("heading", { name: /^\$[\d.]+ est\./ }).waitFor();
    const set = `mutation Set { setCostRate(input: { validFrom: "2020-01-01", currency: "EUR", perThreadHour: 360 })
      { userErrors { message } } }`;
    assert.deepEqual((await graphql(set)).setCostRate.userErrors, []);
    try {
      await open(bad, "cost");
      // 360 an hour are a tenth for each second.
      const amount = bad.usage.threadSeconds / 10;
      const text = `€${amount.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
      await page.getByRole("heading", { name: new RegExp(`^${text}(:|$)`) }).waitFor();
      await page.getByText("€360.00 per thread-hour").waitFor();
    } finally {
      await graphql(`mutation Delete { deleteCostRate(validFrom: "2020-01-01") { userErrors { message } } }`);
    }
  });
});

describe("the privacy of a cluster", () => {
  it("has the receipt of every class of data", async () => {
    await open(bad, "privacy");
    await asTable("privacy");
    const rows = await sheet("Classes of data");
    const known = (value) => (value === null ? "–" : String(value));
    assert.deepEqual(
      rows.map((row) => [row[2], row[4], row[5], row[6] === "refuses"]),
      bad.privacy.classes.map(({ sent, withheld, dropped, accepted }) => [
        known(sent),
        known(withheld),
        known(dropped),
        !accepted,
      ]),
    );
    await page.getByText("1 owner:").waitFor();
  });

  it("names a class that the account refuses", async () => {
    const policy = (accepted) =>
      graphql(
        `mutation Policy($accepted: Boolean!) { setDataPolicy(input: { class: LOGS, accepted: $accepted })
          { userErrors { message } } }`,
        { accepted },
      );
    await policy(false);
    try {
      await open(bad, "privacy");
      const row = page.getByRole("row").filter({ hasText: "log lines of the scheduler" });
      assert.match(await row.textContent(), /refuses/);
    } finally {
      await policy(true);
    }
  });
});

describe("the comparison of two clusters", () => {
  it("is reached from the selection, the older one as A", async () => {
    await go("/clusters?q=features-daily&state=CLOSED");
    for (const { number } of [bad, good])
      await page
        .getByRole("row")
        .filter({ has: page.getByTitle(`features-daily #${number}`) })
        .getByRole("checkbox")
        .check();
    await page.getByRole("button", { name: "Compare" }).click();
    await addressed(new RegExp(`a=${good.number}&b=${bad.number}`));
  });

  it("has parts that add up to the difference", async () => {
    await go(`/compare?a=${good.number}&b=${bad.number}`);
    const { viewer } = await graphql(
      `query Both($a: ID!, $b: ID!) { viewer { account { compare(
        base: { clusterIds: [$a] }, head: { clusterIds: [$b] }, by: []
      ) { delta base { total } head { total } } } } }`,
      { a: String(good.number), b: String(bad.number) },
    );
    const { delta, base, head } = viewer.account.compare;
    assert.ok(Math.abs(head.total - base.total - delta) < 1e-5);
    await page.getByRole("img", { name: /^From .*; B − A/ }).waitFor();
    await asTable("difference");
    const rows = await sheet("Every part");
    const shown = sum(rows.map((row) => Number(row[4])));
    assert.ok(Math.abs(shown - delta) < 1e-5, `${shown} in the parts, ${delta} in all`);
    await page.getByRole("heading", { name: "Profiles, one in the other" }).waitFor();
  });
});

describe("all of that", () => {
  it("was shown without errors and without anything that the policy refuses", () => {
    assert.deepEqual(complaints, []);
  });
});
