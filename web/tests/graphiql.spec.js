// GraphiQL in Chromium, as the server's program serves it with the API:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/graphiql.spec.js
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { collectComplaints, openBrowser, signIn } from "./browser.js";

const galvo = process.env.GALVO_URL ?? "http://127.0.0.1:8000";
const user = { user: process.env.GALVO_USER ?? "ada", password: process.env.GALVO_PASSWORD ?? "" };

let browser;
let page;
let complaints;

before(async () => {
  browser = await openBrowser();
  page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
  page.setDefaultTimeout(60_000);
  complaints = await collectComplaints(page);
});

after(() => browser?.close());

it("runs the query of a new tab with the session of the browser, and shows the schema", async () => {
  const outside = [];
  page.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    if (!["data:", "blob:"].includes(protocol) && origin !== galvo) outside.push(request.url());
  });
  await signIn(page, galvo, user, "/password");
  await page.goto(`${galvo}/graphql`, { waitUntil: "domcontentloaded" });
  await page.click("button[aria-label^='Execute query']");
  const result = page.locator("section[aria-label='Result Window']");
  await page.waitForFunction(
    (element) => element?.textContent.includes("totalCount"),
    await result.elementHandle(),
  );
  const text = await result.textContent();
  assert.ok(text.includes("tidewater") && !text.includes('"message"'), text);
  await page.click("button[aria-label='Show Documentation Explorer']");
  await page.waitForSelector("text=Root Types");
  assert.deepEqual([complaints, outside], [[], []]);
});
