// The page of a cluster in Chromium, against a running server with the clusters of tests/seed.py:
//   GALVO_URL=http://127.0.0.1:8000 GALVO_PASSWORD=… node --test tests/cluster.spec.js
import assert from "node:assert/strict";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import { askServer, collectComplaints, openBrowser, settled, signIn } from "./browser.js";
import { serve } from "./serve.js";

const galvo = process.env.GALVO_URL ?? "http://127.0.0.1:8000";
const account = process.env.GALVO_ACCOUNT ?? "tidewater";
const user = { user: process.env.GALVO_USER ?? "ada", password: process.env.GALVO_PASSWORD ?? "" };

let site;
let browser;
let page;
let complaints;
let cluster;

const graphql = (query, variables) => askServer(page, account, query, variables);

/** Opens a part of the cluster's page and waits for its time line. */
async function open(path = "") {
  const address = `${site.url}/${account}/clusters/${cluster.number}${path}`;
  await page.goto(address, { waitUntil: "domcontentloaded" });
  await page.waitForSelector("figure");
  await settled(page);
}

/** Returns the fields of the CSV file that a menu saves. No name in it has a comma. */
async function readCsv(menu) {
  await page.getByRole("button", { name: menu }).click();
  const saved = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: "CSV" }).click();
  const content = await text(await (await saved).createReadStream());
  return content
    .trimEnd()
    .split("\r\n")
    .map((line) => line.replaceAll('"', "").split(","));
}

before(async () => {
  site = await serve({ galvo });
  browser = await openBrowser();
  page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(90_000);
  complaints = await collectComplaints(page);
  await signIn(page, site.url, user, `/${account}/clusters`);
  const { viewer } = await graphql(
    `query Failed { viewer { account { clusters(
      first: 1, filter: { hasErrors: true, states: [CLOSED], search: "features-daily" }
    ) { nodes {
      id number startedAt endedAt
      usage { threadSeconds causes { cause seconds } }
      workers(first: 100) { totalCount nodes { id name startedAt endedAt end { at kind lostResults processingKeys } } }
      errors(first: 100) { nodes { id type } }
      functionActivity(first: 7) { startedAt stepSeconds functions { prefix threads } computeSeconds }
      taskGroups(first: 100) { totalCount nodes { durations { action seconds } } }
    } } } } }`,
  );
  [cluster] = viewer.account.clusters.nodes;
  assert.ok(cluster, "tests/seed.py made no closed cluster features-daily with errors");
});

after(async () => {
  await browser?.close();
  site?.server.close();
});

describe("the page of a cluster", () => {
  it("asks five questions", async () => {
    await open();
    const questions = await page.getByRole("region", { name: "Answers" }).getByText(/\?$/).allTextContents();
    assert.deepEqual(questions, [
      "Did it finish?",
      "What failed?",
      "What takes the time?",
      "What did it cost?",
      "What changed?",
    ]);
  });

  it("splits the thread time so that the parts add up to the whole", async () => {
    await open();
    const { causes, threadSeconds } = cluster.usage;
    const sum = causes.reduce((total, { seconds }) => total + seconds, 0);
    assert.ok(Math.abs(sum - threadSeconds) < 1e-3);
    const minutes = `${(threadSeconds / 60).toFixed(1)}\u00a0thread-minutes`;
    const title = await page.getByRole("heading", { name: /^[\d.,]+\s+thread-/ }).textContent();
    assert.ok(title.startsWith(minutes), `${title} does not begin with ${minutes}`);
    const bar = await page.getByRole("img", { name: /thread-minutes/ }).boundingBox();
    const parts = await page
      .getByRole("img", { name: /thread-minutes/ })
      .locator("i")
      .all();
    const widths = await Promise.all(parts.map(async (part) => (await part.boundingBox()).width));
    // There is one pixel between two parts.
    const drawn = widths.reduce((total, width) => total + width, 0) + widths.length - 1;
    assert.ok(Math.abs(drawn - bar.width) < 3, `${drawn} of ${bar.width} pixels`);
    const widest = parts[widths.indexOf(Math.max(...widths))];
    const [name] = (await widest.getAttribute("title")).split(":");
    const label = page.getByRole("region", { name: title }).getByText(name, { exact: true });
    const [labelBox, partBox] = [await label.boundingBox(), await widest.boundingBox()];
    assert.ok(Math.abs(labelBox.x - partBox.x) < 2 && labelBox.y < partBox.y, `${name} is not labelled`);
  });

  it("compares the functions with the last good run, with differences that add up", async () => {
    await open("/time");
    const { viewer } = await graphql(
      `{ viewer { account {
        clusters(first: 1, filter: { hasErrors: false, search: "features-daily" }) { nodes { id } }
      } } }`,
    );
    const variables = { base: viewer.account.clusters.nodes[0].id, head: cluster.id };
    const { compare } = (
      await graphql(
        `query Versus($base: ID!, $head: ID!) { viewer { account { compare(
          base: { clusterIds: [$base] }, head: { clusterIds: [$head] }, by: [FUNCTION], first: 1000
        ) { rows { key { part function } base delta } } } } }`,
        variables,
      )
    ).viewer.account;
    const tasks = compare.rows.filter(({ key }) => key.part === "TASKS");
    const minutes = (seconds) => {
      const text = `${Math.abs(seconds / 60).toFixed(1)}\u00a0min`;
      return text.startsWith("0.0") ? `±${text}` : `${seconds < 0 ? "\u2212" : "+"}${text}`;
    };
    const sum = page.getByText(/^All \d+ functions$/).locator("..");
    await sum.getByText(minutes(tasks.reduce((total, { delta }) => total + delta, 0))).waitFor();
    const [most] = tasks.toSorted((a, b) => b.delta - a.delta);
    const row = page.getByRole("button", { name: most.key.function });
    await row.getByText(minutes(most.delta)).waitFor();
  });

  it("keeps a brushed part in the address until it is cleared", async () => {
    await open();
    const lanes = page.getByRole("slider");
    const box = await lanes.boundingBox();
    const start = Date.parse(cluster.startedAt);
    const end = Date.parse(cluster.endedAt);
    await page.mouse.move(box.x + box.width * 0.25, box.y + 200);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.4, box.y + 200, { steps: 3 });
    await page.mouse.move(box.x + box.width * 0.5, box.y + 200, { steps: 3 });
    await page.mouse.up();
    await page.waitForURL(/from=.*to=/, { waitUntil: "commit" });
    const search = new URL(page.url()).searchParams;
    const pixel = (end - start) / box.width;
    const near = (name, share) => {
      const at = Date.parse(search.get(name));
      assert.ok(Math.abs(at - (start + share * (end - start))) <= 2 * pixel, `${name}=${search.get(name)}`);
    };
    near("from", 0.25);
    near("to", 0.5);
    await page.getByRole("button", { name: "Clear" }).click();
    await page.waitForURL((address) => !address.search, { waitUntil: "commit" });
  });

  it("reads the values by keyboard", async () => {
    await open();
    const lanes = page.getByRole("slider");
    await lanes.focus();
    for (let i = 0; i < 50; i++) await page.keyboard.press("ArrowRight");
    const middle = new Date((Date.parse(cluster.startedAt) + Date.parse(cluster.endedAt)) / 2);
    assert.equal(await lanes.getAttribute("aria-valuetext"), middle.toISOString().slice(11, 19));
    await page
      .getByText(/^\d\d:\d\d:\d\d: Threads .*, Memory .*, CPU .*, GIL /)
      .waitFor({ state: "attached" });
  });

  it("splits the threads at the crosshair so that the functions and the rest are all there are", async () => {
    await open("?lanes=functions");
    await page.getByRole("slider").focus();
    for (let i = 0; i < 40; i++) await page.keyboard.press("ArrowRight");
    const rows = await page
      .locator("figure :not(:has(*))")
      .evaluateAll((elements) => elements.map(({ textContent }) => textContent).filter(Boolean));
    const [, main, whole] = /^([\d.]+) of ([\d.]+)$/.exec(rows.find((row) => / of /.test(row)));
    const value = (label) => Number(rows[rows.indexOf(label) + 1].replace(/^<\s/, ""));
    const names = cluster.functionActivity.functions.map(({ prefix }) => prefix);
    const parts = [...names, ...(rows.includes("others") ? ["others"] : [])].map(value);
    const sum = parts.reduce((total, part) => total + part, 0);
    assert.ok(Math.abs(sum - Number(main)) < 0.05, `${parts} are not ${main}`);
    assert.equal(value("threads"), Number(whole));
    assert.ok(Math.abs(sum + value("idle or failed") - Number(whole)) < 0.06, rows.join(", "));
  });

  it("has the names of the largest functions where they are drawn", async () => {
    await open("?lanes=functions");
    const { startedAt, stepSeconds, functions } = cluster.functionActivity;
    const axis = await page.getByRole("slider").boundingBox();
    const [start, end] = [cluster.startedAt, cluster.endedAt].map(Date.parse);
    let named = 0;
    for (const { prefix, threads } of functions) {
      const boxes = await page.locator("figure").getByText(prefix, { exact: true }).all();
      const box = await boxes[1]?.boundingBox();
      if (!box) continue;
      named += 1;
      const at = start + ((box.x + box.width / 2 - axis.x) / axis.width) * (end - start);
      const value = threads[Math.floor((at - Date.parse(startedAt)) / 1000 / stepSeconds)];
      assert.ok(value > 0.2, `${prefix} stands where it had ${value} threads`);
    }
    assert.ok(named >= 2, `${named} functions have a name on their area`);
  });

  it("draws the threads by function, whose integral is the compute time of the task groups", async () => {
    await open("?lanes=functions");
    const { functionActivity, taskGroups } = cluster;
    assert.equal(taskGroups.totalCount, taskGroups.nodes.length);
    const durations = taskGroups.nodes.flatMap((group) => group.durations);
    const computed = durations
      .filter(({ action }) => action === "COMPUTE")
      .reduce((total, { seconds }) => total + seconds, 0);
    assert.ok(computed > 0, "no task of tests/seed.py took any time");

    const [head, ...rows] = await readCsv("Take away functions");
    const step = Number(/^start of (\d+) s \(UTC\)$/.exec(head[0])[1]);
    const areas = head.slice(1, -2);
    const sums = areas.map((_, i) => rows.reduce((total, row) => total + Number(row[i + 1]) * step, 0));
    const integral = sums.reduce((total, seconds) => total + seconds, 0);
    const within = (part, expected) => {
      const difference = Math.abs(integral - expected);
      assert.ok(difference <= part * expected, `the integral is ${integral} s, expected ${expected} s`);
    };
    within(0.02, computed);
    within(0.001, functionActivity.computeSeconds);

    const names = functionActivity.functions.map(({ prefix }) => prefix);
    assert.deepEqual(areas.slice(0, names.length), names);
    const lanes = page.locator("figure");
    for (const name of [...areas, "threads"]) await lanes.getByText(name, { exact: true }).first().waitFor();
    await page.getByRole("button", { name: "As table", exact: true }).click();
    const table = page.getByRole("table", { name: /over time$/ });
    await table.waitFor();
    assert.equal(await table.getByRole("row").count(), rows.length + 1);
  });

  it("zooms by the wheel with Ctrl around the pointer, deeper each time, and out to the whole run", async () => {
    await open();
    const box = await page.getByRole("slider").boundingBox();
    const start = Date.parse(cluster.startedAt);
    const end = Date.parse(cluster.endedAt);
    const at = start + 0.25 * (end - start);
    await page.evaluate(() => {
      window.leftToBrowser = 0;
      addEventListener("wheel", ({ defaultPrevented }) => {
        if (!defaultPrevented) window.leftToBrowser += 1;
      });
    });
    // The marks lie above the lanes, and belong to the same axis.
    const marks = await page.getByText("Marks", { exact: true }).boundingBox();
    await page.mouse.move(box.x + box.width * 0.25, marks.y + marks.height / 2);
    const turn = async (pixels) => {
      const before = page.url();
      await page.keyboard.down("Control");
      await page.mouse.wheel(0, pixels);
      await page.keyboard.up("Control");
      await page.waitForURL((address) => String(address) !== before, { waitUntil: "commit" });
      await settled(page);
      const search = new URL(page.url()).searchParams;
      return { from: Date.parse(search.get("from")), to: Date.parse(search.get("to")), search };
    };
    const pixel = (end - start) / box.width;
    let last = { from: start, to: end };
    for (let i = 0; i < 3; i++) {
      const next = await turn(-100);
      assert.equal(next.search.get("zoom"), "yes");
      const part = (next.to - next.from) / (last.to - last.from);
      assert.ok(Math.abs(part - 1 / 1.5) < 0.01, `it shows ${part} of what was shown`);
      assert.ok(
        Math.abs(next.from + 0.25 * (next.to - next.from) - at) <= 2 * pixel,
        next.search.get("from"),
      );
      last = next;
    }
    for (let i = 0; i < 6 && last.search.has("zoom"); i++) last = await turn(100);
    assert.equal(new URL(page.url()).search, "");
    assert.equal(await page.evaluate(() => window.leftToBrowser), 0, "the browser zoomed as well");
  });

  it("has its zoom and its table in the address", async () => {
    const [from, to] = [0.2, 0.6].map((share) => {
      const [start, end] = [cluster.startedAt, cluster.endedAt].map(Date.parse);
      return new Date(start + share * (end - start)).toISOString();
    });
    await open(`?from=${from}&to=${to}`);
    await page.getByRole("button", { name: "Zoom in" }).click();
    await page.waitForURL(/zoom=yes/, { waitUntil: "commit" });
    await page.getByRole("button", { name: "As table", exact: true }).click();
    const table = page.getByRole("table", { name: /over time$/ });
    await table.waitFor();
    const rows = await table.getAttribute("aria-rowcount");
    await page.reload({ waitUntil: "domcontentloaded" });
    await table.waitFor();
    await settled(page);
    assert.equal(await table.getAttribute("aria-rowcount"), rows);
    await page.getByRole("button", { name: "Show the whole run" }).click();
    await page.getByRole("button", { name: "Zoom in" }).waitFor();
    await settled(page);
    assert.ok(Number(await table.getAttribute("aria-rowcount")) > Number(rows));
    await page.getByRole("button", { name: "As lanes" }).click();
    await page.getByRole("slider").waitFor();
  });

  it("opens the traceback of an error's mark, and the log of an event's, from a menu if they lie together", async () => {
    await open();
    const marks = page.locator("figure").getByRole("button");
    const mark = (name) => marks.filter({ has: page.locator("svg") }).and(page.getByRole("button", { name }));
    // The worst one stands first. Flags and events, which other groups may consist of, open the logs.
    const several = mark(/^\d+ marks: (Worker \S+ (disappeared|was killed)|\w+Error)/).first();
    await several.focus();
    await page.keyboard.press("Enter");
    const items = page.getByRole("menuitem");
    await items.first().waitFor();
    const named = /^(\d+) marks: /.exec(await several.getAttribute("aria-label"))[1];
    assert.equal(await items.count(), Number(named));
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/(workers|errors)\?.*open=/, { waitUntil: "commit" });

    await open();
    await mark(/ValueError/)
      .first()
      .click();
    const item = items.filter({ hasText: "ValueError" });
    await item
      .first()
      .or(page.getByRole("table", { name: "Failed tasks" }))
      .first()
      .waitFor();
    if ((await item.count()) > 0) await item.first().click();
    await page.waitForURL(/\/errors\?.*open=/, { waitUntil: "commit" });
    const id = new URL(page.url()).searchParams.get("open");
    assert.ok(cluster.errors.nodes.some((error) => error.id === id && error.type === "ValueError"));
    await page.getByText("raise ValueError").first().waitFor();

    await open();
    await mark(/Event release/)
      .first()
      .click();
    const event = items.filter({ hasText: "Event release" });
    await event
      .or(page.getByRole("radiogroup", { name: "Level" }))
      .first()
      .waitFor();
    if ((await event.count()) > 0) await event.click();
    await page.waitForURL(/\/logs\?.*from=.*to=/, { waitUntil: "commit" });
  });

  it("says at a mark what happened then, with the values of that time", async () => {
    await open();
    const lanes = page.locator("figure");
    const dead = cluster.workers.nodes.filter(({ end }) => ["LOST", "MEMORY"].includes(end?.kind));
    const mark = lanes.getByRole("button", { name: /disappeared/ }).first();
    await mark.hover();
    const card = lanes.locator("strong").first();
    await card.waitFor();
    const name = /^Worker (\S+) disappeared$/.exec(await card.textContent())?.[1];
    const worker = dead.find((one) => one.name === name);
    const at = await page.getByRole("slider").getAttribute("aria-valuetext");
    assert.equal(at, worker?.end.at.slice(11, 19));
    await page.mouse.move(0, 0);
    await card.waitFor({ state: "detached" });
    await mark.focus();
    await card.waitFor();
  });

  it("plays the run from its start to its end", async () => {
    await open();
    const lanes = page.getByRole("slider");
    await page.getByRole("button", { name: "Play back" }).click();
    const clock = (at) => new Date(at).toISOString().slice(11, 19);
    const first = await lanes.getAttribute("aria-valuetext");
    assert.ok(first >= clock(cluster.startedAt) && first < clock(cluster.endedAt), first);
    await page.waitForFunction(
      (end) => document.querySelector("[role=slider]").ariaValueText === end,
      clock(cluster.endedAt),
    );
    await page.getByRole("button", { name: "Play back" }).waitFor();
    await page.keyboard.press("p");
    await page.getByRole("button", { name: "Pause" }).click();
    assert.ok((await lanes.getAttribute("aria-valuetext")) < clock(cluster.endedAt));
  });

  it("shows in the tabs what was known when the playback paused", async () => {
    await open("/workers");
    await page.getByRole("button", { name: "Play back" }).click();
    const middle = (Date.parse(cluster.startedAt) + Date.parse(cluster.endedAt)) / 2;
    const clock = new Date(middle).toISOString().slice(11, 19);
    // The slider is at the end until the playback begins.
    await page.waitForFunction((at) => document.querySelector("[role=slider]").ariaValueText < at, clock);
    await page.waitForFunction((at) => document.querySelector("[role=slider]").ariaValueText >= at, clock);
    await page.getByRole("button", { name: "Pause" }).click();
    const said = await page.getByText(/the tabs show it until \d\d:\d\d:\d\d/).textContent();
    const [at] = /\d\d:\d\d:\d\d$/.exec(said);
    const day = cluster.startedAt.slice(0, 10);
    const alive = cluster.workers.nodes.filter(
      ({ startedAt, endedAt }) =>
        Date.parse(startedAt) <= Date.parse(`${day}T${at}Z`) &&
        (endedAt === null || Date.parse(endedAt) > Date.parse(`${day}T${at}Z`) + 999),
    ).length;
    // The deaths come at the end of this run, so all workers of the middle are alive.
    await page.getByRole("heading", { name: `${alive} workers at ${at}, ${alive} had joined` }).waitFor();
    assert.ok(alive < cluster.workers.nodes.length, "workers join after those that die");
    assert.equal(await page.getByRole("button", { name: /^Worker \S+, alive$/ }).count(), alive);
    // The lines of the log are those up to that time, which is shown without its fraction of a second.
    const { cluster: counted } = await graphql(
      `query ($id: ID!, $least: TimeRange!, $most: TimeRange!) { cluster(id: $id) {
        least: logs(at: $least) { totalCount } most: logs(at: $most) { totalCount }
      } }`,
      {
        id: cluster.id,
        least: { from: cluster.startedAt, to: `${day}T${at}Z` },
        most: { from: cluster.startedAt, to: new Date(Date.parse(`${day}T${at}Z`) + 1000).toISOString() },
      },
    );
    await page.getByRole("link", { name: /^Logs/ }).click();
    const title = await page.getByRole("heading", { name: /of \d+ log lines$/ }).textContent();
    const shown = Number(/^\d+/.exec(title)[0]);
    assert.ok(counted.least.totalCount <= shown && shown <= counted.most.totalCount, title);
    assert.ok(shown < Number(/of (\d+)/.exec(title)[1]), title);
    await page.keyboard.press("Escape");
    await page.getByText("the tabs show it until").waitFor({ state: "detached" });
    await page.getByText("Whole run").waitFor();
  });

  it("finds the workers that died, with the task and the log of their last moments", async () => {
    await open("/workers");
    const dead = cluster.workers.nodes.filter(({ end }) => ["LOST", "MEMORY"].includes(end?.kind));
    assert.equal(dead.length, 2);
    await page.getByRole("heading", { name: `2 workers of ${cluster.workers.totalCount} died` }).waitFor();
    await page
      .getByRole("button", { name: /disappeared$/ })
      .first()
      .click();
    const post = page.getByRole("region", { name: `Worker ${dead[0].name}` });
    await post.getByText(dead[0].end.processingKeys[0]).waitFor();
    await post.getByText("Its last log lines").waitFor();
  });

  it("finds a worker of the address that the list has not loaded", async () => {
    const dead = cluster.workers.nodes.filter(({ end }) => ["LOST", "MEMORY"].includes(end?.kind));
    await page.route("**/graphql", async (route) => {
      const response = await route.fetch();
      const answer = await response.json();
      const { workers } = answer.data?.cluster ?? {};
      // The list asks for the hosts, and the marks do not.
      if (workers?.nodes[0]?.host) workers.nodes = workers.nodes.filter(({ end }) => end?.kind !== "LOST");
      await route.fulfill({ response, json: answer });
    });
    await open(`/workers?open=${encodeURIComponent(dead[1].id)}`);
    await page.getByRole("region", { name: `Worker ${dead[1].name}` }).waitFor();
    await page.getByText(/ of \d+ are loaded/).waitFor();
    await page.getByRole("heading", { name: `2 workers of ${cluster.workers.totalCount} died` }).waitFor();
    await page.unrouteAll({ behavior: "wait" });
  });

  it("says that its marks did not load", async () => {
    await page.route("**/graphql", async (route) => {
      const response = await route.fetch();
      const answer = await response.json();
      if (!answer.data?.cluster?.spans || !answer.data.cluster.taskGroups) return route.fulfill({ response });
      await route.fulfill({ response, json: { errors: [{ message: "The disk is full." }] } });
    });
    await open();
    const alert = page.getByRole("alert").filter({ hasText: "spans and task groups did not load" });
    await alert.waitFor();
    await page.unrouteAll({ behavior: "wait" });
    await alert.getByRole("button", { name: "Retry" }).click();
    await alert.waitFor({ state: "detached" });
  });

  it("says that the comparison did not load, and not that nothing stands out", async () => {
    await page.route("**/graphql", async (route) => {
      const response = await route.fetch();
      const answer = await response.json();
      if (!answer.data?.cluster?.answers?.whatChanged) return route.fulfill({ response });
      await route.fulfill({ response, json: { errors: [{ message: "The disk is full." }] } });
    });
    await open("/time");
    const alert = page
      .getByRole("alert")
      .filter({ hasText: "The comparison with earlier runs did not load" });
    await alert.waitFor();
    assert.equal(await page.getByText("Nothing does", { exact: true }).count(), 0);
    await page.unrouteAll({ behavior: "wait" });
    await alert.getByRole("button", { name: "Retry" }).click();
    await alert.waitFor({ state: "detached" });
  });

  it("says that the worker of an address is none of the cluster", async () => {
    await open("/workers?open=no-such-worker");
    await page.getByText("The worker of this address is none of this cluster").waitFor();
  });

  it("hands out queries that the server answers with what the page shows", async () => {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: site.url });
    const copied = async (name, label = "") => {
      await page.getByRole("button", { name: `Take away ${label}${name}`, exact: true }).click();
      await page.getByRole("menuitem", { name: "Copy as GraphQL" }).click();
      await page.getByRole("button", { name: `Copied ${name}`, exact: true }).waitFor();
      const content = await page.evaluate(() => navigator.clipboard.readText());
      const [query, variables] = content.split("# Variables:");
      assert.ok(query.startsWith(`# Account: ${account}\n`));
      return graphql(query, JSON.parse(variables));
    };
    await open("/time");
    const causes = await copied("thread-time");
    assert.equal(causes.cluster.usage.threadSeconds, cluster.usage.threadSeconds);
    const lanes = await copied("lanes", "lanes ");
    const measured = lanes.cluster.series.filter(({ points }) => points.length > 0);
    assert.ok(measured.some(({ metric }) => metric === "MEMORY_PROCESS"));
    await open("/workers");
    const { workers } = (await copied("workers")).cluster;
    assert.deepEqual(
      workers.nodes.map(({ name }) => name),
      cluster.workers.nodes.map(({ name }) => name),
    );
    await open("/functions");
    assert.ok((await copied("functions")).cluster.functions.length > 0);
  });

  it("takes away the lanes and the thread time with the numbers of the server", async () => {
    await open();
    const [head, ...rows] = await readCsv("Take away lanes");
    assert.equal(head[0], "time (UTC)");
    assert.ok(head.some((name) => name.startsWith("Memory")));
    assert.ok(rows.length > 10);
    const [, ...causes] = await readCsv("Take away thread-time");
    const sum = causes.reduce((total, [, seconds]) => total + Number(seconds), 0);
    assert.ok(Math.abs(sum - cluster.usage.threadSeconds) < 1e-3);
  });

  it("leads to the comparison with the last good run", async () => {
    await open();
    await page.getByRole("link", { name: "Compare with last good" }).click();
    await page.waitForURL(/\/compare\?/);
    const { viewer } = await graphql(
      `query Good { viewer { account { clusters(
        first: 1, filter: { hasErrors: false, search: "features-daily" }
      ) { nodes { number } } } } }`,
    );
    const [good] = viewer.account.clusters.nodes;
    const { searchParams } = new URL(page.url());
    assert.deepEqual(
      ["a", "b"].map((name) => Number(searchParams.get(name)?.replaceAll('"', ""))),
      [good.number, cluster.number],
    );
  });

  it("has shown all of that without errors and without anything that the policy refuses", () => {
    assert.deepEqual(complaints, []);
  });
});
