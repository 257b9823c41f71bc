// Takes pictures of pages: node tests/shots.js [PATH...] [--width=1440,1024,390] [--theme=light,dark] [--wait=1200]
//   Without a path it takes all pages of GALVO_ACCOUNT (tidewater). GALVO_URL, GALVO_USER, GALVO_PASSWORD name the
//   server and the user. Pictures go to tests/shots/.
import { mkdirSync } from "node:fs";
import { collectComplaints, openBrowser, signIn } from "./browser.js";
import { pathsOfPages } from "./pages.js";
import { serve } from "./serve.js";

const options = { width: "1440", theme: "light", wait: "1200" };
const paths = [];
for (const argument of process.argv.slice(2)) {
  const match = /^--(\w+)=(.*)$/.exec(argument);
  if (match) options[match[1]] = match[2];
  else paths.push(argument);
}
const directory = new URL("shots/", import.meta.url).pathname;
mkdirSync(directory, { recursive: true });

const { server, url } = await serve({ galvo: process.env.GALVO_URL ?? "http://127.0.0.1:8000" });
const browser = await openBrowser();
let failed = false;
try {
  for (const theme of options.theme.split(",")) {
    const context = await browser.newContext({ colorScheme: theme, viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    const complaints = await collectComplaints(page);
    const user = { user: process.env.GALVO_USER ?? "ada", password: process.env.GALVO_PASSWORD ?? "" };
    const account = process.env.GALVO_ACCOUNT ?? "tidewater";
    await signIn(page, url, user, paths[0] ?? `/${account}/clusters`);
    const chosen = paths.length > 0 ? paths : await pathsOfPages(page, account);
    for (const [index, path] of chosen.entries()) {
      for (const width of options.width.split(",").map(Number)) {
        await page.setViewportSize({ width, height: 900 });
        await page.goto(url + path, { waitUntil: "domcontentloaded", timeout: 90_000 });
        await page.waitForTimeout(300);
        await page.waitForFunction(() => !document.querySelector("[aria-busy=true]"), null, {
          timeout: 60_000,
        });
        await page.waitForTimeout(Number(options.wait));
        // The numbers of clusters and the identifiers of errors differ between servers.
        const words = path.replace(/\d{2,}/g, "N").replace(/errors\/.*/, "errors/group");
        const slug = words.replace(/\W+/g, "-").replace(/^-|-$/g, "") || "start";
        const name = `${String(index + 1).padStart(2, "0")}-${slug}-${width}-${theme}.png`;
        await page.screenshot({ path: directory + name, fullPage: true });
        console.log(directory + name);
      }
    }
    for (const complaint of complaints) console.log(complaint);
    failed ||= complaints.length > 0;
    await context.close();
  }
} finally {
  await browser.close();
  server.close();
}
process.exit(failed ? 1 : 0);
