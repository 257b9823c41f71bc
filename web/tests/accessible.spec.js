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

    it("breaks no rule of axe on the pages before the sign-in", async () => {
      const page = await (await browser.newContext(settings)).newPage();
      const found = [];
      for (const path of SIGNED_OUT) {
        await page.goto(galvo + path, { waitUntil: "domcontentloaded" });
        found.push(...(await violations(page)).map((violation) => `${path}: ${violation}`));
      }
      assert.deepEqual(found, []);
      await page.context().close();
    });
  });
}

describe("the keyboard", () => {
  it("reaches every control of every page in the order of the document, and is trapped by none", async () => {
    const { page } = await signedIn(SETTINGS["the light theme"]);
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
    await page.context().close();
  });
});
