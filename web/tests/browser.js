// Chromium with the dashboard's checks: the CSP's violations and the page's errors are collected.
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const CANDIDATES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export async function openBrowser() {
  const executablePath = CANDIDATES.find((path) => existsSync(path));
  if (!executablePath) throw new Error("there is no Chromium: apt-get install chromium fonts-dejavu-core");
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
}

/** Returns the list in which the complaints of the page are collected. */
export async function collectComplaints(page) {
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // The session is asked for before the sign-in, and a server that does not have this build's documents
    // refuses the first one.
    const isRefusal = /status of 40[01]/.test(message.text());
    if (message.type() === "error" && !isRefusal) complaints.push(`console: ${message.text()}`);
  });
  // GraphiQL sends the text that its user writes. A server without this build's documents gets their texts.
  page.on("request", (request) => {
    if (!process.env.EMBEDDED || request.method() !== "POST") return;
    const isOfPage = !new URL(page.url()).pathname.startsWith("/graphql");
    if (!isOfPage || new URL(request.url()).pathname !== "/graphql") return;
    const { documentId, query } = request.postDataJSON();
    if (!documentId || query !== undefined) complaints.push(`text: ${query ?? "no document"}`);
  });
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      console.error(`CSP ${event.violatedDirective}: ${event.blockedURI} ${event.sample}`),
    );
  });
  return complaints;
}

/** Signs in on the server's page and waits for the page that `path` leads to. */
export async function signIn(page, url, who, path = "/") {
  await page.goto(url + path, { waitUntil: "domcontentloaded", timeout: 90_000 });
  await page.waitForURL(/sign-in/, { waitUntil: "commit", timeout: 90_000 });
  await fillSignIn(page, who);
}

/** Signs in on the open sign-in page, and waits for the page that it leads to. */
export async function fillSignIn(page, { user, password }) {
  await page.fill("input[name=username]", user);
  await page.fill("input[name=password]", password);
  await page.click("form button");
  await page.waitForURL((address) => !address.pathname.startsWith("/sign-in"), {
    waitUntil: "commit",
    timeout: 90_000,
  });
}

/** Waits until the page is there and nothing on it is loading. */
export async function settled(page) {
  await page.waitForTimeout(300);
  await page.waitForFunction(
    () => document.querySelector("h1") && !document.querySelector("[aria-busy=true]"),
    null,
    { timeout: 60_000 },
  );
}

/** Presses "Copy link", and returns the address that was copied. */
export async function copiedLink(page) {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Copy link" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  return new URL(await page.evaluate(() => navigator.clipboard.readText()));
}

/** Runs the function with a page of the same session whose clock is 40 days ahead. */
export async function later(page, run) {
  // The clock is that of all pages of a context.
  const storageState = await page.context().storageState();
  const context = await page.context().browser().newContext({ storageState, viewport: page.viewportSize() });
  const other = await context.newPage();
  await other.clock.setFixedTime(Date.now() + 40 * 86_400_000);
  try {
    await run(other);
  } finally {
    await context.close();
  }
}

/** Asks the server itself, with the session of the page, outside of the page. Returns the data. */
export async function askServer(page, account, query, variables = {}) {
  const address = (path) => new URL(path, page.url()).href;
  const session = await (await page.request.get(address("/api/v1/session"))).json();
  const response = await page.request.post(address("/graphql"), {
    headers: { "Galvo-CSRF": session.csrf_token, "Galvo-Account": account },
    data: { query, variables },
  });
  return (await response.json()).data;
}
