// Every page in Chromium, in both themes, on a small window and by keyboard, against a running server with the
// clusters of tests/seed.py, one of which still runs:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/accessible.spec.js
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { violations } from "./axe.js";
import { collectComplaints, openBrowser, settled, signIn } from "./browser.js";
import { pathsOfPages } from "./pages.js";
import { serve } from "./serve.js";

const galvo = process.env.GALVO_URL ?? "http://127.0.0.1:8000";
const account = process.env.GALVO_ACCOUNT ?? "tidewater";
const user = { user: process.env.GALVO_USER ?? "ada", password: process.env.GALVO_PASSWORD ?? "" };

const SIGNED_OUT = ["/sign-in", "/sign-in/link", "/activate-token"];
const SETTINGS = {
  "the light theme": { colorScheme: "light", viewport: { width: 1440, height: 900 } },
  "the dark theme": { colorScheme: "dark", viewport: { width: 1440, height: 900 } },
  // The same window at 200 %.
  "a zoom of 200 %": { colorScheme: "light", viewport: { width: 720, height: 450 }, deviceScaleFactor: 2 },
};
const TIMEOUT = {
  status: 504,
  headers: { "Content-Type": "application/graphql-response+json", "X-Request-Id": "7f3a" },
  body: JSON.stringify({ errors: [{ message: "the query took longer", extensions: { code: "TIMEOUT" } }] }),
};

let site;
let browser;

before(async () => {
  site = await serve({ galvo });
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  site?.server.close();
});

async function signedIn(settings) {
  const page = await (await browser.newContext(settings)).newPage();
  page.setDefaultTimeout(90_000);
  const complaints = await collectComplaints(page);
  await signIn(page, site.url, user, `/${account}/clusters`);
  return { page, complaints };
}

async function open(page, path) {
  await page.goto(site.url + path, { waitUntil: "domcontentloaded" });
  await settled(page);
}

for (const [name, settings] of Object.entries(SETTINGS)) {
  describe(name, () => {
    it("breaks no rule of axe and none of the policy on any page", async () => {
      const { page, complaints } = await signedIn(settings);
      const found = [];
      for (const path of await pathsOfPages(page, account)) {
        await open(page, path);
        found.push(...(await violations(page)).map((violation) => `${path}: ${violation}`));
      }
      assert.deepEqual(found, []);
      assert.deepEqual(complaints, []);
      await page.context().close();
    });

    it("breaks no rule of axe and none of the policy on the pages before the sign-in", async () => {
      const page = await (await browser.newContext(settings)).newPage();
      const complaints = await collectComplaints(page);
      const found = [];
      for (const path of SIGNED_OUT) {
        await page.goto(galvo + path, { waitUntil: "domcontentloaded" });
        found.push(...(await violations(page)).map((violation) => `${path}: ${violation}`));
      }
      assert.deepEqual(found, []);
      assert.deepEqual(complaints, []);
      await page.context().close();
    });
  });
}

describe("open menus and dialogs", () => {
  const button = (name) => (page) => page.getByRole("button", { name }).first().click();
  const OPENED = {
    "": { range: button("Last 28 days"), "what can be taken away": button(/^Take away/) },
    "/clusters": {
      accounts: button(/switch the account$/),
      "themes and settings": button(/, settings$/),
      search: (page) => page.keyboard.press("Control+k"),
      keys: (page) => page.keyboard.press("?"),
      columns: button(/^Columns/),
      "a filter by text": button("Lasted"),
      "a filter by flags": button("Flag"),
      "a filter by time": button("Started"),
    },
  };
  it("break no rule of axe in both themes", async () => {
    // Colours change at once.
    const { page, complaints } = await signedIn({ ...SETTINGS["the light theme"], reducedMotion: "reduce" });
    const found = [];
    for (const [path, things] of Object.entries(OPENED)) {
      await open(page, `/${account}${path}`);
      for (const [thing, show] of Object.entries(things)) {
        await show(page);
        const opened = page.locator("[role=menu], [role=dialog]");
        await opened.waitFor();
        for (const colorScheme of ["dark", "light"]) {
          await page.emulateMedia({ colorScheme });
          const broken = await violations(page);
          found.push(...broken.map((violation) => `${thing}, ${colorScheme}: ${violation}`));
        }
        await page.keyboard.press("Escape");
        await opened.waitFor({ state: "detached" });
      }
    }
    assert.deepEqual(found, []);
    assert.deepEqual(complaints, []);
    await page.context().close();
  });
});

describe("pages whose queries fail", () => {
  for (const name of ["the light theme", "the dark theme"]) {
    it(`break no rule of axe in ${name}`, async () => {
      const { page, complaints } = await signedIn(SETTINGS[name]);
      const paths = await pathsOfPages(page, account);
      await page.route("**/graphql", (route) => route.fulfill(TIMEOUT));
      const found = [];
      for (const path of paths) {
        await page.goto(site.url + path, { waitUntil: "domcontentloaded" });
        await page.getByRole("main").waitFor();
        await page.waitForTimeout(300);
        await page.waitForFunction(() => !document.querySelector("[aria-busy=true]"));
        found.push(...(await violations(page)).map((violation) => `${path}: ${violation}`));
      }
      assert.deepEqual(found, []);
      assert.deepEqual(
        complaints.filter((complaint) => !complaint.includes("status of 504")),
        [],
      );
      await page.context().close();
    });
  }
});

describe("a narrow window", () => {
  it("is not wider than the screen on any page", async () => {
    const { page, complaints } = await signedIn({ viewport: { width: 390, height: 844 } });
    const found = [];
    for (const path of await pathsOfPages(page, account)) {
      await open(page, path);
      const { scrollWidth, clientWidth } = await page.evaluate(() => ({
        scrollWidth: document.documentElement.scrollWidth,
        clientWidth: document.documentElement.clientWidth,
      }));
      if (scrollWidth > clientWidth) found.push(`${path}: ${scrollWidth} px in ${clientWidth} px`);
    }
    assert.deepEqual(found, []);
    assert.deepEqual(complaints, []);
    await page.context().close();
  });
});

describe("the keyboard", () => {
  it("reaches every control of every page in the order of the document, and is trapped by none", async () => {
    const { page, complaints } = await signedIn(SETTINGS["the light theme"]);
    for (const path of await pathsOfPages(page, account)) {
      await open(page, path);
      // Live data change the page meanwhile, so the elements are marked first.
      const expected = await page.evaluate(() => {
        const controls = [
          ...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]"),
        ].filter(
          (element) =>
            element.tabIndex >= 0 &&
            !element.disabled &&
            element.checkVisibility({ visibilityProperty: true }),
        );
        for (const [index, element] of controls.entries()) element.setAttribute("data-control", index);
        return controls.length;
      });
      const reached = new Set();
      // From both ends: a long list shows more rows as it is walked through.
      for (const key of ["Tab", "Shift+Tab"]) {
        await page.evaluate((isForward) => {
          const start = document.createElement("button");
          document.body[isForward ? "prepend" : "append"](start);
          start.focus();
        }, key === "Tab");
        for (let presses = 0; presses < expected + 10 && reached.size < expected; presses += 1) {
          await page.keyboard.press(key);
          reached.add(await page.evaluate(() => document.activeElement?.getAttribute("data-control")));
          reached.delete(null);
        }
      }
      const missed = await page.evaluate(
        (found) =>
          [...document.querySelectorAll("[data-control]")]
            .filter((element) => !found.includes(element.getAttribute("data-control")))
            .map((element) => element.outerHTML.slice(0, 200)),
        [...reached],
      );
      assert.deepEqual(missed, [], path);
    }
    assert.deepEqual(complaints, []);
    await page.context().close();
  });
});
