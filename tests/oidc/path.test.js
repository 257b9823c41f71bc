// Signing in with an OpenID provider on a server that is reachable below a path of its host.
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { start as startGalvo } from "../graphql-js/server.js";
import { Browser } from "./browser.js";
import { CLIENT, freePort, signingKey, start } from "./provider.js";

const [listen, port] = [`127.0.0.1:${await freePort()}`, await freePort()];
const site = `http://${listen}/tools/galvo`;
const provider = await start(port, await signingKey("first"), site);
const galvo = await startGalvo({
  listen,
  variables: {
    GALVO_PUBLIC_URL: site,
    GALVO_OIDC_ISSUER: provider.url,
    GALVO_OIDC_CLIENT_ID: CLIENT.id,
    GALVO_OIDC_CLIENT_SECRET: CLIENT.secret,
    GALVO_OIDC_PROVISION: "member",
    GALVO_OIDC_PROVISION_ACCOUNT: "default",
  },
});
after(async () => {
  await galvo.stop();
  await provider.stop();
});

test("the provider sends a browser back below the path, and it goes on to where it came from", async () => {
  const browser = new Browser();
  const back = "/tools/galvo/password?x=1";
  let page = await browser.open(`${site}/sign-in?return_to=${encodeURIComponent(back)}`);
  const [, link] = /<a href="([^"]+)">Sign in with OpenID Connect<\/a>/.exec(page.text);
  assert.equal(link, `/tools/galvo/sign-in/oidc?return_to=${encodeURIComponent(back)}`);
  const left = await browser.open(new URL(link, page.url).href, { follow: () => false });
  assert.equal(new URL(left.url).searchParams.get("redirect_uri"), `${site}/sign-in/oidc/callback`);
  const [cookie] = left.headers.getSetCookie();
  assert.match(cookie, /^galvo_attempt=[\w.-]+; Path=\/tools\/galvo; Max-Age=600; HttpOnly; SameSite=Lax$/);
  page = await browser.open(left.url);
  while (page.url.startsWith(provider.url)) {
    assert.equal(page.status, 200, page.text);
    page = await browser.submit(page, page.text.includes('name="login"') ? { login: "ada", password: "x" } : {});
  }
  assert.equal(page.url, `${site}/password?x=1`);
  assert.equal(page.status, 200);
  assert.match(JSON.parse((await browser.open(`${site}/api/v1/session`)).text).username, /^ada/);
});
