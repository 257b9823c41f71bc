// The server of `npm run dev`, which serves the sources and passes everything else on to a running server:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/dev.spec.js
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { createServer } from "vite";
import { openBrowser, signIn } from "./browser.js";

const account = process.env.GALVO_ACCOUNT ?? "tidewater";
const user = { user: process.env.GALVO_USER ?? "ada", password: process.env.GALVO_PASSWORD ?? "" };

let vite;
let browser;

before(async () => {
  // The configuration reads GALVO_URL.
  vite = await createServer({
    root: new URL("..", import.meta.url).pathname,
    logLevel: "error",
    server: { port: 0 },
  });
  await vite.listen();
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await vite?.close();
});

it("has the session and the live data of the server", async () => {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(60_000);
  const sockets = [];
  page.on("websocket", (socket) => sockets.push(new URL(socket.url()).pathname));
  const url = vite.resolvedUrls.local[0].replace(/\/$/, "");
  await signIn(page, url, user, `/${account}/clusters`);
  await page.getByRole("heading", { name: "Clusters", level: 1 }).waitFor();
  const session = await page.evaluate(async () => (await fetch("/api/v1/session")).json());
  assert.equal(session.username, user.user);
  await page.getByText(/^Live · \d+\s+s ago$/).waitFor();
  assert.ok(sockets.includes("/graphql"), String(sockets));
  assert.ok(sockets.includes("/"), "the socket that brings changed sources");
});
