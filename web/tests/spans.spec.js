// The spans of a cluster that has more than a page of them, in Chromium, against a running server with the clusters
// of tests/seed.py:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/spans.spec.js
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

before(async () => {
  site = await serve({ galvo });
  browser = await openBrowser();
  page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(90_000);
  complaints = await collectComplaints(page);
  await signIn(page, site.url, user, `/${account}/clusters`);
});

after(async () => {
  await browser?.close();
  site?.server.close();
});

/** Answers with the first three spans as the first page, and with all others as the second one. */
async function pageOfThree(of) {
  await page.route("**/graphql", async (route) => {
    const { variables } = route.request().postDataJSON();
    if (variables?.after === "three") {
      const pageInfo = { hasNextPage: false, endCursor: null };
      const spans = { pageInfo, nodes: of.slice(3) };
      return route.fulfill({ json: { data: { cluster: { id: variables.id, spans } } } });
    }
    const response = await route.fetch();
    const answer = await response.json();
    const { spans } = answer.data?.cluster ?? {};
    if (spans?.nodes.length > 3) {
      of.push(...spans.nodes);
      spans.nodes = spans.nodes.slice(0, 3);
      spans.pageInfo = { hasNextPage: true, endCursor: "three" };
    }
    await route.fulfill({ response, json: answer });
  });
}

describe("the spans of a cluster", () => {
  it("are drawn page after page", async () => {
    const { viewer } = await askServer(
      page,
      account,
      `{ viewer { account { clusters(first: 1, filter: { hasErrors: true, search: "features-daily" }) {
        nodes { number }
      } } } }`,
    );
    const spans = [];
    await pageOfThree(spans);
    const { number } = viewer.account.clusters.nodes[0];
    await page.goto(`${site.url}/${account}/clusters/${number}`, { waitUntil: "domcontentloaded" });
    await page.waitForSelector("figure");
    await settled(page);
    const note = page.locator("figure").getByText(/^\d+\sin\s\d+\slevels$/);
    await note.waitFor();
    assert.ok(spans.length > 3, `${spans.length} spans are too few for this test`);
    assert.equal(await note.textContent(), `${spans.length} in 2\u00a0levels`);
    assert.equal(await page.locator("figure [data-tone]").count(), spans.length);
    await page.unrouteAll({ behavior: "wait" });
  });

  it("were drawn without errors and without anything that the policy refuses", () => {
    assert.deepEqual(complaints, []);
  });
});
