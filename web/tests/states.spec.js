// The page in trouble, in Chromium, against a running server with the clusters of tests/seed.py. The answers
// that a server gives rarely come from the test:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/states.spec.js
import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { violations } from "./axe.js";
import { askServer, collectComplaints, openBrowser, signIn } from "./browser.js";
import { serve } from "./serve.js";

const galvo = process.env.GALVO_URL ?? "http://127.0.0.1:8000";
const account = process.env.GALVO_ACCOUNT ?? "tidewater";
const user = { user: process.env.GALVO_USER ?? "ada", password: process.env.GALVO_PASSWORD ?? "" };

let site;
let browser;
let page;
let complaints;
let cluster;

before(async () => {
  site = await serve({ galvo });
  browser = await openBrowser();
  page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(90_000);
  complaints = await collectComplaints(page);
  await signIn(page, site.url, user, `/${account}/clusters`);
  const { viewer } = await askServer(
    page,
    account,
    `{ viewer { account { clusters(first: 1, filter: { states: [CLOSED], search: "features-daily" }) {
      nodes { number }
    } } } }`,
  );
  [cluster] = viewer.account.clusters.nodes;
  assert.ok(cluster, "tests/seed.py made no closed cluster features-daily");
});

afterEach(async () => {
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.context().setOffline(false);
});

after(async () => {
  await browser?.close();
  site?.server.close();
});

const go = (path) => page.goto(`${site.url}/${account}${path}`, { waitUntil: "domcontentloaded" });
const refusal = (status, code, message, headers = {}) => ({
  status,
  headers: { "Content-Type": "application/graphql-response+json", "X-Request-Id": "7f3a", ...headers },
  body: JSON.stringify({ errors: [{ message, extensions: { code } }] }),
});

/** Answers the operations of the page in place of the server, `times` times. Counts them. */
async function answerWith(answer, times = Number.POSITIVE_INFINITY) {
  const answered = { count: 0 };
  await page.route("**/graphql", async (route) => {
    if (answered.count >= times) return route.continue();
    answered.count += 1;
    return typeof answer === "function" ? answer(route) : route.fulfill(answer);
  });
  return answered;
}

/** Waits until the list of errors is there. */
const recovered = () => page.locator("[data-group]").first().waitFor();

describe("an answer that is a failure", () => {
  it("after the query's timeout says so, and is asked for again by a button", async () => {
    await answerWith(refusal(504, "TIMEOUT", "the query took longer than 10 s"));
    await go("/errors");
    const alert = page.getByRole("alert").filter({ hasText: "did not load" }).first();
    await alert.getByText("It took longer than the server allows. Narrow the range. Request 7f3a.").waitFor();
    assert.deepEqual(await violations(page), []);
    await page.unrouteAll();
    await alert.getByRole("button", { name: "Retry" }).click();
    await recovered();
  });

  it("by the rate limit is repeated after the time that the server names", async () => {
    const began = Date.now();
    const refused = new Set();
    await answerWith((route) => {
      const { documentId } = route.request().postDataJSON();
      if (refused.has(documentId)) return route.continue();
      refused.add(documentId);
      return route.fulfill(refusal(429, "RATE_LIMITED", "too many points", { "Retry-After": "2" }));
    });
    await go("/errors");
    await recovered();
    assert.ok(refused.size >= 3, "the page asks for the account, the groups and their numbers");
    assert.ok(Date.now() - began >= 2_000);
  });

  it("of a server that restarts is repeated", async () => {
    const answered = await answerWith(refusal(503, "UNAVAILABLE", "the database does not answer"), 1);
    await go("/errors");
    await recovered();
    assert.equal(answered.count, 1);
  });

  it("of one field leaves the rest on the page, and names the request", async () => {
    let requestId;
    await answerWith(async (route) => {
      const response = await route.fetch();
      const body = await response.json();
      const { errorGroups } = body.data?.viewer?.account ?? {};
      if (errorGroups)
        body.errors = [
          {
            message: "the trend took too long",
            path: ["viewer", "account", "errorGroups", "nodes", 0, "trend"],
            extensions: { code: "TIMEOUT" },
          },
        ];
      if (errorGroups?.nodes[0]?.trend) requestId = response.headers()["x-request-id"];
      await route.fulfill({ response, json: body });
    });
    await go("/errors");
    await recovered();
    const status = page.getByRole("status").filter({ hasText: "The errors did not load completely" });
    await status.getByText(`: the trend took too long. Request ${requestId}.`).waitFor();
    assert.match(requestId, /^[0-9a-f-]{36}$/);
  });
});

describe("an answer that breaks a panel", () => {
  it("leaves its neighbours, and the panel comes back with the next answer", async () => {
    let breaks = true;
    await answerWith(async (route) => {
      const response = await route.fetch();
      const body = await response.json();
      const { account: answered } = body.data?.viewer ?? {};
      if (breaks && answered?.usageTable) answered.usageTable = { rows: 1 };
      await route.fulfill({ response, json: body });
    });
    await go("");
    const alert = page.getByRole("alert").filter({ hasText: "stopped working" });
    await alert.getByText("The use by user and day stopped working").waitFor();
    assert.equal(await alert.count(), 1);
    await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
    await page.getByRole("heading", { name: /^(Live now|Nothing is live)/ }).waitFor();
    assert.deepEqual(await violations(page), []);
    breaks = false;
    await page.getByRole("button", { name: "Last 28 days" }).click();
    await page.getByRole("menuitem", { name: "Last 7 days" }).click();
    await alert.waitFor({ state: "detached" });
    // The console has the defect, once.
    const at = complaints.findIndex((complaint) => complaint.startsWith("console: TypeError"));
    assert.notEqual(at, -1);
    complaints.splice(at, 1);
  });
});

describe("a cluster whose reporter is older than the server", () => {
  const withoutActivity = (answer) => {
    answer.functionActivity = {
      ...answer.functionActivity,
      startedAt: null,
      functions: [],
      otherThreads: [],
      computeSeconds: 0,
    };
  };

  it("has a reason in the place of the threads by function, also in a part of the run, and no zeros", async () => {
    await answerWith(async (route) => {
      const response = await route.fetch();
      const body = await response.json();
      if (body.data?.cluster?.functionActivity) withoutActivity(body.data.cluster);
      await route.fulfill({ response, json: body });
    });
    await go(`/clusters/${cluster.number}?lanes=functions`);
    const lanes = page.locator("figure");
    const reason = lanes.getByText("Not reported: by an older version of Galvo, or an imported file");
    await reason.waitFor();
    assert.equal(await lanes.locator("canvas").count(), 0);
    assert.equal(await page.getByRole("button", { name: "Take away functions" }).count(), 0);
    const slider = page.getByRole("slider");
    await slider.focus();
    for (const key of ["ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight"]) await page.keyboard.press(key);
    await page.getByRole("button", { name: "Zoom in" }).click();
    await page.getByRole("button", { name: "Show the whole run" }).waitFor();
    await reason.waitFor();
    assert.equal(await lanes.locator("canvas").count(), 0);
    await go(`/clusters/${cluster.number}`);
    await lanes.getByText("Busy threads", { exact: true }).waitFor();
    assert.equal(await lanes.getByText("Threads", { exact: true }).count(), 0);
  });

  it("differs from a field that failed", async () => {
    await answerWith(async (route) => {
      const response = await route.fetch();
      const body = await response.json();
      if (body.data?.cluster?.functionActivity) {
        const extensions = { code: "TIMEOUT" };
        const path = ["cluster", "functionActivity"];
        Object.assign(body, {
          data: { ...body.data, cluster: { ...body.data.cluster, functionActivity: null } },
          errors: [{ message: "the activity took too long", path, extensions }],
        });
      }
      await route.fulfill({ response, json: body });
    });
    await go(`/clusters/${cluster.number}`);
    await page.getByText("Threads by function did not load completely: the activity took too long").waitFor();
    const lanes = page.locator("figure");
    await lanes.getByText("Did not load", { exact: true }).waitFor();
    await lanes.getByText("Memory", { exact: true }).waitFor();
  });
});

describe("a network that is lost", () => {
  it("is named where data are missing and, after 30 s, above the page, until it is back", async () => {
    await go("/errors");
    await recovered();
    await page.context().setOffline(true);
    await page.locator("[data-group]", { hasText: "ValueError" }).click();
    await page.getByRole("alert").filter({ hasText: "The server cannot be reached." }).first().waitFor();
    const bar = page.getByText("The server has not answered since");
    await bar.waitFor();
    assert.ok((await page.locator("[data-group]").count()) > 0);
    await page.context().setOffline(false);
    await page.getByText("your code").first().waitFor();
    await bar.waitFor({ state: "detached" });
  });
});

it("broke no rule of the policy and raised no error", () => {
  const expected = /Failed to load resource|WebSocket connection/;
  assert.deepEqual(
    complaints.filter((complaint) => !expected.test(complaint)),
    [],
  );
});
