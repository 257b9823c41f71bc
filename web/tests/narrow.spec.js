// What stands in one row, and what has no room, on screens of 1,024 and 390 pixels, in Chromium, against a running
// server with the clusters of tests/seed.py:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/narrow.spec.js
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
let good;
let bad;
let live;

before(async () => {
  site = await serve({ galvo });
  browser = await openBrowser();
  page = await browser.newPage({ viewport: { width: 1024, height: 900 } });
  page.setDefaultTimeout(90_000);
  complaints = await collectComplaints(page);
  await signIn(page, site.url, user, `/${account}/clusters`);
  const { viewer } = await askServer(
    page,
    account,
    `{ viewer { account {
      good: clusters(first: 1, filter: { hasErrors: false, search: "features-daily" }) { nodes { number } }
      bad: clusters(first: 1, filter: { hasErrors: true, search: "features-daily" }) { nodes { number } }
      live: clusters(first: 1, filter: { search: "notebook" }) { nodes { number } }
    } } }`,
  );
  [good, bad, live] = ["good", "bad", "live"].map((name) => viewer.account[name].nodes[0].number);
});

after(async () => {
  await browser?.close();
  site?.server.close();
});

async function open(path, width) {
  await page.setViewportSize({ width, height: 900 });
  await page.goto(`${site.url}/${account}${path}`, { waitUntil: "domcontentloaded" });
  await settled(page);
}

/** Returns the upper edges of controls, of which those in one row have the same middle. */
async function middles(...controls) {
  return Promise.all(
    controls.map(async (control) => {
      const { y, height } = await control.boundingBox();
      return Math.round(y + height / 2);
    }),
  );
}

const button = (name) => page.getByRole("button", { name });

describe("at 1,024 pixels, in one row stand", () => {
  it("all controls of the errors", async () => {
    await open("/errors", 1024);
    const rows = await middles(
      button("Copy link"),
      page.getByRole("radiogroup", { name: "Origin" }),
      page.getByRole("radiogroup", { name: "Status" }),
      button("Take away errors"),
    );
    assert.deepEqual(new Set(rows).size, 1, `${rows}`);
  });

  it("all actions of a cluster, and of its time line", async () => {
    await open(`/clusters/${bad}`, 1024);
    const last = page.getByRole("link", { name: "Compare with last good" });
    const actions = await middles(button("Copy link"), button("Tag…"), last);
    assert.equal(new Set(actions).size, 1, `${actions}`);
    await open(`/clusters/${live}`, 1024);
    await button("Take away lanes").waitFor();
    const names = ["Live", "Play back", "Take away lanes", "As table"];
    const tools = await middles(
      ...names.map((name) => page.getByRole("button", { name, exact: name === "Live" })),
    );
    assert.equal(new Set(tools).size, 1, `${tools}`);
  });
});

describe("at 390 pixels", () => {
  it("no value of a comparison lies on another one", async () => {
    await open(`/compare?a=${good}&b=${bad}`, 390);
    const chart = page.getByRole("img", { name: /^From .*; B − A/ });
    const values = chart.locator("span").filter({ hasText: /^[+−±]/ });
    const boxes = await values.evaluateAll((spans) =>
      spans.map((span) => {
        const range = document.createRange();
        range.selectNodeContents(span);
        const { left, right, top, bottom } = range.getBoundingClientRect();
        return { text: span.textContent, left, right, top, bottom };
      }),
    );
    assert.ok(boxes.length > 3, `${boxes.length} values are too few for this test`);
    for (const [index, a] of boxes.entries())
      for (const b of boxes.slice(index + 1)) {
        const isApart = a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
        assert.ok(isApart, `${a.text} lies on ${b.text}`);
      }
  });

  it("the parts of a comparison need no scrolling to the side", async () => {
    const table = page.getByRole("table", { name: "Every part" });
    const first = table.getByRole("row").first();
    assert.match(await first.textContent(), /[+−±][\d.]+\s(h|min|s|ms).*→/);
    const { scrollWidth, clientWidth } = await table.evaluate(({ parentElement }) => ({
      scrollWidth: parentElement.scrollWidth,
      clientWidth: parentElement.clientWidth,
    }));
    assert.equal(scrollWidth, clientWidth);
  });
});

describe("all of that", () => {
  it("was shown without errors and without anything that the policy refuses", () => {
    assert.deepEqual(complaints, []);
  });
});
