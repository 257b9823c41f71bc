// The navigation and its menus in Chromium, on wide and narrow windows, against a running server. Each test signs
// in by itself, because some end their session:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/shell.spec.js
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { collectComplaints, openBrowser, settled, signIn } from "./browser.js";
import { serve } from "./serve.js";

const galvo = process.env.GALVO_URL ?? "http://127.0.0.1:8000";
const account = process.env.GALVO_ACCOUNT ?? "tidewater";
const user = { user: process.env.GALVO_USER ?? "ada", password: process.env.GALVO_PASSWORD ?? "" };

const WINDOWS = {
  "a wide window": { viewport: { width: 1440, height: 900 }, menu: /, settings$/ },
  "a narrow window": { viewport: { width: 390, height: 844 }, menu: "More" },
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

for (const [name, { viewport, menu }] of Object.entries(WINDOWS)) {
  describe(name, () => {
    let page;
    let complaints;

    before(async () => {
      page = await (await browser.newContext({ viewport })).newPage();
      page.setDefaultTimeout(60_000);
      complaints = await collectComplaints(page);
      await signIn(page, site.url, user, `/${account}/errors`);
      await settled(page);
    });

    after(() => page?.context().close());

    const openMenu = async () => {
      await page.getByRole("button", { name: menu }).click();
      await page.getByRole("menu").waitFor();
    };
    const choose = (item) => page.getByRole("menuitem", { name: item, exact: true }).click();

    it("sets the theme in the user's menu, and shows the keys", async () => {
      await openMenu();
      await choose("Dark");
      await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
      await openMenu();
      await choose("As the system");
      await openMenu();
      await choose("Keys");
      await page.getByRole("dialog", { name: "Keys" }).waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
    });

    it("has the accounts of the user", async () => {
      if (name === "a narrow window") await openMenu();
      else await page.getByRole("button", { name: /switch the account$/ }).click();
      const own = page.getByRole("menuitem", { name: `${account} owner` });
      await own.click();
      await page.getByRole("menu").waitFor({ state: "detached" });
      assert.equal(new URL(page.url()).pathname, `/${account}/errors`);
    });

    it("leads to the form for the password", async () => {
      await openMenu();
      await choose("Password");
      await page.waitForURL(`${site.url}/password`);
      await page.locator("input[name=old]").waitFor();
      await page.goBack();
      await settled(page);
    });

    it("signs out", async () => {
      await openMenu();
      await choose("Sign out");
      await page.waitForURL(`${site.url}/sign-in`);
      await page.locator("input[name=username]").waitFor();
      const session = await page.request.get(`${site.url}/api/v1/session`);
      assert.equal(session.status(), 401);
    });

    it("broke no rule of the policy and raised no error", () => assert.deepEqual(complaints, []));
  });
}
