// Signing in with a certified OpenID provider, through its own pages.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";

import { start as startGalvo } from "../graphql-js/server.js";
import { Browser } from "./browser.js";
import { CLIENT, freePort, signed, signedWithSecret, signingKey, start, unsigned } from "./provider.js";

const [listen, port] = [`127.0.0.1:${await freePort()}`, await freePort()];
const galvoUrl = `http://${listen}`;
const key = await signingKey("first");
let provider = await start(port, key, galvoUrl);
const PASSWORD = "correct horse battery";

const galvo = await startGalvo({
  listen,
  variables: {
    GALVO_PUBLIC_URL: galvoUrl,
    GALVO_OIDC_ISSUER: provider.url,
    GALVO_OIDC_CLIENT_ID: CLIENT.id,
    GALVO_OIDC_CLIENT_SECRET: CLIENT.secret,
    GALVO_OIDC_NAME: "Example <Inc>",
    GALVO_OIDC_PROVISION: "member",
    GALVO_OIDC_ACCOUNT_CLAIM: "teams",
  },
});
before(async () => {
  await galvo.command(["account", "create", "blue"]);
  await galvo.command(["user", "password", "admin"], PASSWORD);
});
after(async () => {
  await galvo.stop();
  await provider.stop();
});
beforeEach(() => {
  provider.forge = undefined;
});

const isCallback = (url) => url.startsWith(`${galvoUrl}/sign-in/oidc/callback`);

/** Signs in as a user on the provider's pages, and returns the callback URL without opening it. */
async function toCallback(browser, name, back = "/") {
  const options = { follow: (url) => !isCallback(url) };
  let page = await browser.open(`${galvoUrl}/sign-in/oidc?return_to=${encodeURIComponent(back)}`, options);
  while (!isCallback(page.url)) {
    assert.equal(page.status, 200, page.text);
    page = await browser.submit(page, page.text.includes('name="login"') ? { login: name, password: "x" } : {}, options);
  }
  return page.url;
}

const signIn = async (browser, name, back) => browser.open(await toCallback(browser, name, back));

/** Returns the name of the user signed in with a browser; undefined if there is none. */
async function who(browser) {
  const page = await browser.open(`${galvoUrl}/api/v1/session`);
  return JSON.parse(page.text).username;
}

test("the page to sign in on names the provider", async () => {
  const page = await new Browser().open(`${galvoUrl}/sign-in?return_to=/password`);
  assert.match(page.text, /<a href="\/sign-in\/oidc\?return_to=%2Fpassword">Sign in with Example &lt;Inc&gt;<\/a>/);
});

test("the provider is asked for a code that only this browser's sign-in can use", async () => {
  const page = await new Browser().open(`${galvoUrl}/sign-in/oidc`, { follow: () => false });
  const url = new URL(page.url);
  assert.equal(page.status, 303);
  assert.equal(url.origin + url.pathname, `${provider.url}/auth`);
  const asked = Object.fromEntries(url.searchParams);
  const { state, nonce, code_challenge: challenge } = asked;
  assert.deepEqual(
    { ...asked, state: state.length, nonce: nonce.length, code_challenge: challenge.length },
    {
      response_type: "code",
      client_id: CLIENT.id,
      redirect_uri: `${galvoUrl}/sign-in/oidc/callback`,
      scope: "openid profile email",
      state: 43,
      nonce: 43,
      code_challenge: 43,
      code_challenge_method: "S256",
    },
  );
  const [cookie] = page.headers.getSetCookie();
  assert.match(cookie, /^galvo_attempt=[\w.-]+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax$/);
});

test("somebody who is not known becomes a member, and is where they came from", async () => {
  const browser = new Browser();
  const page = await signIn(browser, "ada-blue", "/password?x=1");
  assert.equal(page.url, `${galvoUrl}/password?x=1`);
  assert.equal(page.status, 200);
  assert.equal(browser.cookie(galvoUrl, "galvo_attempt"), undefined);
  const name = await who(browser);
  assert.match(name, /^ada-blue/);
  const me = JSON.parse((await browser.open(`${galvoUrl}/api/v2/user/me`)).text);
  assert.equal(me.default_account.slug, "blue");
  const query = encodeURIComponent("{ viewer { scopes } }");
  const answer = JSON.parse((await browser.open(`${galvoUrl}/graphql?query=${query}`)).text);
  assert.deepEqual(answer.data.viewer.scopes, ["INGEST", "READ"]);
  // A second sign-in is the same user.
  const again = new Browser();
  await signIn(again, "ada-blue");
  assert.equal(await who(again), name);
});

test("somebody of no account that is here is told so", async () => {
  for (const name of ["bob", "bob-green"]) {
    const browser = new Browser();
    const page = await signIn(browser, name);
    assert.equal(page.status, 403);
    assert.match(page.text, /you are not a member of any account here/);
    assert.equal(await who(browser), undefined);
  }
});

test("a code is good once, and for the browser that left", async () => {
  const browser = new Browser();
  const url = await toCallback(browser, "ada-blue");
  const attempt = browser.cookie(galvoUrl, "galvo_attempt");
  // Another browser, and this one with another state, or with a part of the callback missing or wrong.
  for (const [other, changed] of [
    [new Browser(), (given) => given],
    [browser, (given) => given.set("state", "A".repeat(43))],
    [browser, (given) => given.delete("state")],
    [browser, (given) => given.delete("code")],
    [browser, (given) => given.set("iss", "https://evil.example")],
    [browser, (given) => given.set("code", "wrong")],
  ]) {
    const tampered = new URL(url);
    changed(tampered.searchParams);
    const page = await other.open(tampered.href);
    assert.equal(page.status, 403, page.text);
    assert.equal(await who(other), undefined);
    // The attempt is deleted then; only the owner of the browser can restore it.
    assert.equal(other.cookie(galvoUrl, "galvo_attempt"), undefined);
    browser.setCookie(galvoUrl, "galvo_attempt", attempt);
  }
  assert.equal((await browser.open(url)).status, 200);
  assert.match(await who(browser), /^ada-blue/);
  const replayed = new Browser();
  replayed.setCookie(galvoUrl, "galvo_attempt", attempt);
  assert.equal((await replayed.open(url)).status, 403);
  assert.equal(await who(replayed), undefined);
});

test("what the provider refuses is told, and not repeated", async () => {
  const browser = new Browser();
  const url = new URL(await toCallback(browser, "ada-blue"));
  url.searchParams.delete("code");
  url.searchParams.set("error", "<script>access_denied");
  const page = await browser.open(url.href);
  assert.equal(page.status, 403);
  assert.match(page.text, /the provider refused the sign-in/);
  assert.doesNotMatch(page.text, /script/);
});

const now = () => Math.floor(Date.now() / 1000);
const other = await signingKey("first");
for (const [what, forge, good = false] of [
  ["nothing changed", signed("first"), true],
  ["another nonce", (claims, own) => signed("first")({ ...claims, nonce: "other" }, own)],
  ["no nonce", ({ nonce, ...claims }, own) => signed("first")(claims, own)],
  ["another audience", (claims, own) => signed("first")({ ...claims, aud: "other" }, own)],
  ["another audience beside", (claims, own) => signed("first")({ ...claims, aud: [CLIENT.id, "other"] }, own)],
  ["another issuer", (claims, own) => signed("first")({ ...claims, iss: "https://evil.example" }, own)],
  ["a time that is over", (claims, own) => signed("first")({ ...claims, exp: now() - 1 }, own)],
  ["another access token", (claims, own) => signed("first")({ ...claims, at_hash: "AAAAAAAAAAAAAAAAAAAAAA" }, own)],
  ["no subject", ({ sub, ...claims }, own) => signed("first")(claims, own)],
  ["an unknown key", (claims) => signed("second")(claims, other.privateKey)],
  ["another key of the same name", (claims) => signed("first")(claims, other.privateKey)],
  ["the secret for a key", signedWithSecret],
  ["no signature", unsigned],
  ["no token", () => "no token"],
]) {
  test(`an ID token with ${what} is ${good ? "" : "not "}believed`, async () => {
    provider.forge = forge;
    const browser = new Browser();
    const page = await signIn(browser, "ada-blue");
    assert.equal((await who(browser)) !== undefined, good, page.text);
    if (!good) assert.ok([403, 503].includes(page.status), page.text);
  });
}

test("keys may change while people sign in", async () => {
  const browser = new Browser();
  await signIn(browser, "ada-blue");
  await provider.stop();
  const next = await signingKey("second");
  provider = await start(port, next, galvoUrl);
  // The provider's keys are not requested again at once.
  await wait(1100);
  const afterwards = new Browser();
  const page = await signIn(afterwards, "ada-blue");
  assert.equal(page.status, 200, page.text);
  assert.equal(await who(afterwards), await who(browser));
  assert.equal(provider.asked.filter((path) => path === "/jwks").length, 1);
});

test("without the provider one signs in with a password", async () => {
  await provider.stop();
  const browser = new Browser();
  try {
    // The provider's address is still cached for a while; the code from the callback cannot be redeemed.
    const left = await browser.open(`${galvoUrl}/sign-in/oidc`, { follow: () => false });
    const state = new URL(left.url).searchParams.get("state");
    const page = await browser.open(`${galvoUrl}/sign-in/oidc/callback?code=x&state=${state}`);
    assert.equal(page.status, 503);
    assert.match(page.text, /the provider is unavailable/);
    const form = await browser.open(`${galvoUrl}/sign-in`);
    const signedIn = await browser.submit(form, { username: "admin", password: PASSWORD });
    assert.equal(signedIn.status, 200);
    assert.equal(await who(browser), "admin");
  } finally {
    provider = await start(port, key, galvoUrl);
  }
});
