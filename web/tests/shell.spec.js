// The navigation and its menus in Chromium, on wide and narrow windows, against a running server. Each test signs
// in by itself, because some end their session:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/shell.spec.js
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { askServer, collectComplaints, openBrowser, settled, signIn } from "./browser.js";
import { TABS } from "./pages.js";
import { serve } from "./serve.js";
import { commandOfDemo } from "./server.js";

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

describe("the frame of the pages", () => {
  const second = `second-${Date.now().toString(36)}`;
  let page;
  let complaints;
  let cluster;

  const go = async (path) => {
    await page.goto(`${site.url}/${account}${path}`, { waitUntil: "domcontentloaded" });
    await settled(page);
  };
  const pathIs = (path) =>
    page.waitForURL((address) => address.pathname + address.search === path, { waitUntil: "commit" });
  const navigation = () => page.getByRole("navigation", { name: "Main" });

  before(async () => {
    await commandOfDemo("account", "create", second);
    await commandOfDemo("user", "create", user.user, "--account", second, "--role", "viewer");
    const viewport = { width: 1440, height: 900 };
    page = await (await browser.newContext({ viewport, colorScheme: "light" })).newPage();
    page.setDefaultTimeout(60_000);
    complaints = await collectComplaints(page);
    await signIn(page, site.url, user, `/${account}/errors?status=resolved`);
    const { viewer } = await askServer(
      page,
      account,
      `{ viewer { account { clusters(first: 1, filter: { states: [CLOSED], search: "features-daily" }) {
        nodes { number }
      } } } }`,
    );
    cluster = viewer.account.clusters.nodes[0].number;
  });

  after(async () => {
    await page?.context().close();
    await commandOfDemo("account", "delete", second, "--confirm", second);
  });

  it("has the numbers of live and idle clusters, and of errors that began within a day", async () => {
    await go("/errors");
    // Clusters come and go beside this test, and the page asks again every 30 seconds: the page agrees with
    // the server at some moment.
    const deadline = Date.now() + 100_000;
    for (;;) {
      const { viewer } = await askServer(
        page,
        account,
        `{ viewer { account {
          live: clusters(filter: { states: [STARTING, RUNNING, IDLE, CLOSING] }) { totalCount }
          idle: clusters(filter: { states: [IDLE] }) { totalCount }
          errorGroups(status: [OPEN], first: 100) { nodes { firstSeenAt } }
        } } }`,
      );
      const { live, idle, errorGroups } = viewer.account;
      const yesterday = Date.now() - 86_400_000;
      const fresh = errorGroups.nodes.filter((group) => Date.parse(group.firstSeenAt) > yesterday);
      assert.ok(fresh.length > 0 && live.totalCount > 0);
      const idleText = idle.totalCount > 0 ? ` ${idle.totalCount} idle` : "";
      const expected = [`Errors ${fresh.length} new`, `Clusters ${live.totalCount} live${idleText}`];
      const shown = await Promise.all(
        expected.map((name) => navigation().getByRole("link", { name, exact: true }).isVisible()),
      );
      if (shown.every(Boolean)) break;
      const text = await navigation().textContent();
      assert.ok(Date.now() < deadline, `${expected.join(", ")}; the page: ${text}`);
      await page.waitForTimeout(500);
    }
  });

  it("is as high as a page that is higher than the window", async () => {
    await go(`/clusters/${cluster}`);
    const heights = await page.evaluate(() => {
      const frame = document.querySelector(".frame");
      const { backgroundImage } = getComputedStyle(frame);
      return { backgroundImage, frame: frame.offsetHeight, page: document.documentElement.scrollHeight };
    });
    assert.ok(heights.page > 900);
    assert.equal(heights.frame, heights.page);
    assert.match(heights.backgroundImage, /gradient/);
  });

  it("switches to another account on the same page, without the filter of the first one", async () => {
    await go("/errors?status=resolved");
    await page.getByRole("button", { name: /switch the account$/ }).click();
    // Until the account's own numbers are known there are none, above all not those of the account before.
    let answer;
    const asserted = new Promise((resolve) => {
      answer = resolve;
    });
    await page.route("**/graphql", async (route) => {
      if (route.request().headers()["galvo-account"] === second) await asserted;
      await route.continue();
    });
    await page.getByRole("menuitem", { name: `${second} viewer` }).click();
    await pathIs(`/${second}/errors`);
    const links = () =>
      page.evaluate(() =>
        [...document.querySelectorAll("nav.side a")].map((link) => link.textContent).join(),
      );
    await page.locator(`nav.side a[href="/${second}/errors"]`).waitFor();
    assert.equal(await links(), "Overview,Clusters,Errors");
    assert.equal(await page.locator("[data-group]").count(), 0);
    answer();
    await page
      .getByRole("navigation", { name: "Breadcrumbs" })
      .getByRole("link", { name: second, exact: true })
      .waitFor();
    await page.getByText("No open error was seen in 28 days").waitFor();
    // The account has no cluster and no error, so nobody must act.
    assert.equal(await links(), "Overview,Clusters,Errors");
    await page.unroute("**/graphql");
    await page.getByRole("button", { name: /switch the account$/ }).click();
    await page.getByRole("menuitem", { name: `${account} owner` }).click();
    await pathIs(`/${account}/errors`);
    await page.locator("[data-group]").first().waitFor();
  });

  it("keeps the chosen theme, and follows the system once that is chosen", async () => {
    const isDark = () =>
      page.evaluate(() => {
        const parts = getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g);
        return parts.slice(0, 3).every((part) => Number(part) < 80);
      });
    const choose = async (theme) => {
      await page.getByRole("button", { name: /, settings$/ }).click();
      await page.getByRole("menuitem", { name: theme, exact: true }).click();
      await page.getByRole("menu").waitFor({ state: "detached" });
    };
    assert.equal(await isDark(), false);
    await choose("Dark");
    assert.equal(await isDark(), true);
    await go("/errors");
    assert.equal(await isDark(), true);
    await page.emulateMedia({ colorScheme: "dark" });
    await choose("Light");
    assert.equal(await isDark(), false);
    await choose("As the system");
    assert.equal(await isDark(), true);
    await page.emulateMedia({ colorScheme: "light" });
    assert.equal(await isDark(), false);
  });

  it("opens the pages with g and a letter, and the tabs of a cluster with digits", async () => {
    for (const [letter, path] of [
      ["o", ""],
      ["c", "/clusters"],
      ["e", "/errors"],
    ]) {
      await page.keyboard.press("g");
      await page.keyboard.press(letter);
      await pathIs(`/${account}${path}`);
    }
    await go(`/clusters/${cluster}`);
    for (const digit of [9, 8, 7, 6, 5, 4, 3, 2, 1]) {
      const tab = TABS[digit - 1];
      await page.keyboard.press(String(digit));
      await pathIs(`/${account}/clusters/${cluster}/${tab}`);
      const open = page
        .getByRole("navigation", { name: "Parts of the cluster" })
        .locator("[aria-current=page]");
      // A number follows the names of some.
      assert.match((await open.textContent()).toLowerCase(), new RegExp(`^${tab}\\b`));
    }
  });

  it("clears the chosen part with Escape, and then leads back to the list as it was left", async () => {
    await go("/clusters?q=features&state=CLOSED");
    await page.locator(`[role=table] a[href*="${cluster}"]`).click();
    await page.getByRole("slider").waitFor();
    await page.getByRole("slider").focus();
    for (const key of ["ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight"]) await page.keyboard.press(key);
    await page.getByRole("heading", { name: "Part of the run" }).waitFor();
    await page.getByRole("slider").blur();
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "Whole run" }).waitFor();
    // What is open above the page takes the key.
    await page.getByRole("button", { name: /^Lanes \d+ of/ }).click();
    await page.getByRole("menu").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("menu").waitFor({ state: "detached" });
    assert.match(new URL(page.url()).pathname, new RegExp(`/clusters/${cluster}$`));
    await page.keyboard.press("Escape");
    await pathIs(`/${account}/clusters?q=features&state=CLOSED`);
  });

  it("takes no single key once they are turned off, also after a reload", async () => {
    const dialog = page.getByRole("dialog", { name: "Keys" });
    await page.keyboard.press("?");
    await dialog.getByRole("button", { name: "Turn single keys off" }).click();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await go("/errors");
    for (const key of ["g", "c", "?", "/"]) await page.keyboard.press(key);
    assert.equal(await page.getByRole("dialog").count(), 0);
    // A key with Control is none of them. Its dialog shows that the keys before it were taken by nobody.
    await page.keyboard.press("Control+k");
    await page.getByRole("dialog", { name: "Search or jump to" }).waitFor();
    assert.equal(new URL(page.url()).pathname, `/${account}/errors`);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: /, settings$/ }).click();
    await page.getByRole("menuitem", { name: "Keys", exact: true }).click();
    await dialog.getByRole("button", { name: "Turn single keys on" }).click();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.keyboard.press("g");
    await page.keyboard.press("c");
    await pathIs(`/${account}/clusters`);
  });

  it("broke no rule of the policy and raised no error", () => assert.deepEqual(complaints, []));
});
