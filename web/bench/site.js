// A server with an account of its own, clusters that report to it, and a browser that is signed in.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import { askServer } from "../tests/browser.js";
import { serve } from "../tests/serve.js";
import { DaskCluster, Server } from "../tests/server.js";

export const ACCOUNT = "default";
const WORKERS = 1_000;
const GROUPS = 2_000;
const LARGE_CLUSTER = new URL("../../python/bench/large_cluster.py", import.meta.url).pathname;
const READY_SECONDS = 300;

const CREATE_TOKEN = `mutation {
  createToken(input: { label: "benchmark", scopes: [INGEST] }) { secret }
}`;
const SIZES = `{ viewer { account { clusters(first: 10) { nodes {
  id number state totals { workers tasks }
  taskGroups(first: 1) { totalCount }
} } } } }`;

class Site {
  #browser;
  #token;
  #server;
  #page;
  #large = null;
  #dask = null;

  constructor(browser, server, url, page, token) {
    this.#browser = browser;
    this.#server = server;
    this.url = url;
    this.#page = page;
    this.#token = token;
  }

  /** Returns a page with the session and nothing in its caches. */
  async newPage() {
    const storageState = await this.#page.context().storageState();
    const context = await this.#browser.newContext({ storageState, viewport: { width: 1440, height: 900 } });
    return context.newPage();
  }

  async #clusters() {
    const { viewer } = await askServer(this.#page, ACCOUNT, SIZES);
    return viewer.account.clusters.nodes;
  }

  async #clusterWith(condition) {
    const end = Date.now() + READY_SECONDS * 1000;
    while (Date.now() < end) {
      const cluster = (await this.#clusters()).find(condition);
      if (cluster) return cluster;
      await setTimeout(500);
    }
    throw new Error("the server does not have the cluster's report in time");
  }

  /** Returns the cluster of many workers, which reports until the end. */
  async largeCluster() {
    if (!this.#large) {
      const inherited = Object.entries(process.env).filter(([name]) => !/^(GALVO|DASK)_/.test(name));
      this.#large = spawn(process.env.GALVO_PYTHON ?? "python3", [LARGE_CLUSTER, `--workers=${WORKERS}`], {
        env: {
          ...Object.fromEntries(inherited),
          DASK_GALVO__SERVER: this.#server.url,
          DASK_GALVO__TOKEN: this.#token,
        },
        stdio: ["pipe", "ignore", "ignore"],
      });
    }
    return this.#clusterWith(
      ({ totals, taskGroups }) => totals.workers === WORKERS && taskGroups.totalCount >= GROUPS,
    );
  }

  /** Returns a small cluster of real workers and its commands. It reports every second. */
  async smallCluster() {
    if (!this.#dask) {
      this.#dask = new DaskCluster(this.#server.url, this.#token);
      await this.#dask.command("register");
      await this.#dask.command("work");
    }
    const cluster = await this.#clusterWith(({ totals }) => totals.workers < WORKERS && totals.tasks > 0);
    return { ...cluster, dask: this.#dask };
  }

  async close() {
    await this.#dask?.close();
    if (this.#large) {
      const ended = once(this.#large, "exit");
      this.#large.stdin.end();
      await ended;
    }
  }
}

/** Runs the function with a server that ends with it. */
export async function withServer(browser, run) {
  const server = new Server();
  let proxy = null;
  let site = null;
  try {
    const link = await server.start();
    proxy = await serve({ galvo: server.url });
    const page = await browser.newPage();
    await page.goto(link.replace(server.url, proxy.url), { waitUntil: "domcontentloaded" });
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { level: 1, name: "Connect your first cluster" }).waitFor();
    // The page of an empty account would ask for the first cluster again and again.
    await page.goto(`${proxy.url}/${ACCOUNT}/no-such-page`);
    const { createToken } = await askServer(page, ACCOUNT, CREATE_TOKEN);
    site = new Site(browser, server, proxy.url, page, createToken.secret);
    await run(site);
  } finally {
    await site?.close();
    proxy?.server.close();
    await server.remove();
  }
}
