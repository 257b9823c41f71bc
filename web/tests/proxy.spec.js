// The dashboard behind nginx with TLS and below a path, in Chromium. The test starts the server, nginx and the Dask
// cluster:
//   GALVO_BIN=target/debug/galvo GALVO_PYTHON=.venv/test-newest/bin/python node --test tests/proxy.spec.js
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { collectComplaints, openBrowser, settled } from "./browser.js";
import { Nginx } from "./nginx.js";
import { DaskCluster, Server } from "./server.js";

let nginx;
let server;
let browser;
let page;
let complaints;
let dask;
let token;
const requested = new Set();
const sockets = new Set();

const heading = (name) => page.getByRole("heading", { name, level: 1 });

const cookies = () => page.context().cookies();

async function open(path) {
  await page.goto(nginx.url + path, { waitUntil: "domcontentloaded" });
  await settled(page);
}

before(async () => {
  nginx = await Nginx.create();
  const settings = { GALVO_PUBLIC_URL: nginx.url, GALVO_TRUSTED_PROXIES: "127.0.0.1" };
  if (!process.env.EMBEDDED) settings.GALVO_DASHBOARD_DIR = new URL("../dist", import.meta.url).pathname;
  server = new Server(settings);
  const link = await server.start();
  assert.ok(link.startsWith(`${nginx.url}/sign-in/link#`), link);
  await nginx.start(server.url);
  browser = await openBrowser();
  const context = await browser.newContext({
    ignoreHTTPSErrors: true,
    viewport: { width: 1440, height: 900 },
  });
  page = await context.newPage();
  page.setDefaultTimeout(90_000);
  complaints = await collectComplaints(page);
  page.on("request", (request) => requested.add(request.url()));
  page.on("websocket", (socket) => sockets.add(socket.url()));
  await page.goto(link, { waitUntil: "domcontentloaded" });
  await page.getByRole("button", { name: "Sign in" }).click();
});

after(async () => {
  await dask?.close();
  await browser?.close();
  await server?.remove();
  await nginx?.remove();
});

describe("the dashboard below a path of another host", () => {
  it("opens on the account, and keeps its cookie to the path", async () => {
    await heading("Connect your first cluster").waitFor();
    assert.equal(page.url(), `${nginx.url}/default`);
    const kept = await cookies();
    assert.deepEqual(kept.map(({ name }) => name).sort(), ["__Secure-galvo", "__Secure-galvo-device"]);
    for (const { name, path, secure, httpOnly } of kept) {
      assert.deepEqual([name, path, secure, httpOnly], [name, "/galvo", true, true]);
    }
  });

  it("turns into the cluster at its first report, which came through the proxy", async () => {
    await page.getByRole("button", { name: "Create a token" }).click();
    await page.locator("pre", { hasText: nginx.url }).first().waitFor();
    token = await page
      .locator("code", { hasText: /^[\w-]{40,}$/ })
      .first()
      .textContent();
    dask = new DaskCluster(nginx.url, token, { SSL_CERT_FILE: nginx.authority });
    await dask.command("register");
    await heading("first").waitFor();
    await page.waitForURL(`${nginx.url}/default/clusters/1`, { waitUntil: "commit" });
    assert.deepEqual([...sockets], [`${nginx.url.replace("https", "wss")}/graphql`]);
  });

  it("shows a task that fails on the open page", async () => {
    await dask.command("fail");
    await page.getByText("1\u00a0task failed").first().waitFor();
  });

  it("has each of its pages at an address that opens again", async () => {
    for (const [path, name] of [
      ["/default", "Overview"],
      ["/default/clusters", "Clusters"],
      ["/default/errors", "Errors"],
      ["/default/clusters/1/workers", "first"],
    ]) {
      await open(path);
      await heading(name).waitFor();
      assert.equal(new URL(page.url()).pathname, `/galvo${path}`);
    }
    const links = await page.locator("a[href]").evaluateAll((all) => all.map(({ href }) => href));
    assert.ok(links.length > 10);
    assert.deepEqual(
      links.filter((address) => !address.startsWith(`${nginx.url}/`)),
      [],
    );
    await open("/default/no-such-page");
    await heading(/not found|no such page/i).waitFor();
  });

  it("has GraphiQL, which runs a query", async () => {
    await page.goto(`${nginx.url}/graphql`, { waitUntil: "domcontentloaded" });
    await page.click("button[aria-label^='Execute query']");
    const result = page.locator("section[aria-label='Result Window']");
    await result.filter({ hasText: "totalCount" }).waitFor();
    assert.ok(!(await result.textContent()).includes('"message"'));
  });

  it("signs out", async () => {
    await open("/default");
    await page.getByRole("button", { name: "admin" }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await page.waitForURL(`${nginx.url}/sign-in`, { waitUntil: "commit" });
    // What remains says only that somebody signed in here before.
    assert.deepEqual(
      (await cookies()).map(({ name }) => name),
      ["__Secure-galvo-device"],
    );
  });

  it("asked nothing outside of the path, and nothing was refused", () => {
    const outside = [...requested].filter((address) => !address.startsWith(`${nginx.url}/`));
    assert.deepEqual([complaints, outside.filter((address) => !/^(data|blob):/.test(address))], [[], []]);
  });
});
