// Takes pictures of pages: node tests/shots.js [PATH...] [--width=1440,1024,390] [--theme=light,dark] [--wait=1200]
//   Without a path it takes all pages of GALVO_ACCOUNT (tidewater). GALVO_URL, GALVO_USER, GALVO_PASSWORD name the
//   server and the user. With GALVO_BIN, as tests/demo.sh sets it, an empty account is made for the first run.
//   Pictures go to tests/shots/.
import { mkdirSync } from "node:fs";
import { collectComplaints, openBrowser, settled, signIn } from "./browser.js";
import { pathsOfPages } from "./pages.js";
import { serve } from "./serve.js";
import { commandOfDemo } from "./server.js";

const options = { width: "1440", theme: "light", wait: "1200" };
const paths = [];
for (const argument of process.argv.slice(2)) {
  const match = /^--(\w+)=(.*)$/.exec(argument);
  if (match) options[match[1]] = match[2];
  else paths.push(argument);
}
const directory = new URL("shots/", import.meta.url).pathname;
mkdirSync(directory, { recursive: true });

const user = { user: process.env.GALVO_USER ?? "ada", password: process.env.GALVO_PASSWORD ?? "" };
const account = process.env.GALVO_ACCOUNT ?? "tidewater";
const empty = process.env.GALVO_BIN && paths.length === 0 ? `empty-${Date.now().toString(36)}` : null;
/** Pages of the server, for users with a session. */
const OF_SERVER = ["/activate-token", "/sign-in/invitation", "/password"];

const { server, url } = await serve({ galvo: process.env.GALVO_URL ?? "http://127.0.0.1:8000" });
const browser = await openBrowser();

// The numbers of clusters and the identifiers of errors differ between servers.
const neutral = (path) => path.replace(/\d{2,}/g, "N").replace(/errors\/.*/, "errors/group");

async function picture(page, path, theme, number, words = neutral(path)) {
  for (const width of options.width.split(",").map(Number)) {
    await page.setViewportSize({ width, height: 900 });
    await page.goto(url + path, { waitUntil: "domcontentloaded", timeout: 90_000 });
    await settled(page);
    await page.waitForTimeout(Number(options.wait));
    const slug = words.replace(/\W+/g, "-").replace(/^-|-$/g, "") || "start";
    const name = `${String(number).padStart(2, "0")}-${slug}-${width}-${theme}.png`;
    await page.screenshot({ path: directory + name, fullPage: true });
    console.log(directory + name);
  }
}

/** Answers the queries of one field as a server that takes too long. */
async function failField(page, field) {
  await page.route("**/graphql", async (route) => {
    const response = await route.fetch();
    const { data } = await response.json();
    if (data?.viewer?.account?.[field] === undefined) return route.fulfill({ response });
    const errors = [{ message: "the query took longer than 10 s", extensions: { code: "TIMEOUT" } }];
    await route.fulfill({ response, status: 504, json: { errors } });
  });
}

async function allPictures(page, theme) {
  const pages = await pathsOfPages(page, account);
  let number = 0;
  for (const path of [...pages, ...OF_SERVER]) {
    number += 1;
    await picture(page, path, theme, number);
  }
  if (empty) await picture(page, `/${empty}`, theme, number + 1, "first-run");
  await failField(page, "usageTable");
  await picture(page, `/${account}`, theme, number + 2, "failed-panel");
  await page.unrouteAll({ behavior: "ignoreErrors" });
}

let failed = false;
try {
  if (empty) {
    await commandOfDemo("account", "create", empty);
    await commandOfDemo("user", "create", user.user, "--account", empty, "--role", "owner");
  }
  for (const theme of options.theme.split(",")) {
    const context = await browser.newContext({ colorScheme: theme, viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    const complaints = await collectComplaints(page);
    if (paths.length === 0) await picture(page, "/sign-in", theme, 0);
    await signIn(page, url, user, paths[0] ?? `/${account}/clusters`);
    if (paths.length === 0) await allPictures(page, theme);
    for (const [index, path] of paths.entries()) await picture(page, path, theme, index + 1);
    // The failure of a panel is made by this program, and the server's own pages have no icon.
    const real = complaints.filter((complaint) => !/status of (404|504)/.test(complaint));
    for (const complaint of real) console.log(complaint);
    failed ||= real.length > 0;
    await context.close();
  }
} finally {
  if (empty) await commandOfDemo("account", "delete", empty, "--confirm", empty);
  await browser.close();
  server.close();
}
process.exit(failed ? 1 : 0);
