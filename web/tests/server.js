// A Galvo server with a store of its own, and a Dask cluster that reports to it. GALVO_BIN names the server's
// program and GALVO_PYTHON a Python with Dask and Galvo's package.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

const program = process.env.GALVO_BIN ?? "../target/debug/galvo";
const python = process.env.GALVO_PYTHON ?? "python3";

/** Returns this environment without the settings of another server, and with these. */
function environment(settings) {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(GALVO|DASK)_/.test(name));
  return { ...Object.fromEntries(inherited), ...settings };
}

async function command(env, ...words) {
  const { stdout } = await promisify(execFile)(program, words, { env });
  return stdout.trim();
}

/** Runs a command of the program on the store of the server that tests/demo.sh started. */
export function commandOfDemo(...words) {
  const { GALVO_DATABASE_URL } = process.env;
  return command(environment({ GALVO_DATABASE_URL, GALVO_LOG: "warn" }), ...words);
}

/** A server that keeps its store and its port when it is started again. It has these settings besides its own. */
export class Server {
  #directory;
  #process = null;
  #port = 0;
  #more;

  constructor(settings = {}) {
    this.#more = settings;
  }

  get url() {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Starts it. Returns the link with which the first user signs in, on the first start. */
  async start() {
    this.#directory ??= await mkdtemp(join(tmpdir(), "galvo-"));
    const words = ["serve", "--bootstrap", "--listen", `127.0.0.1:${this.#port}`];
    this.#process = spawn(program, words, { env: this.#settings, stdio: ["ignore", "pipe", "inherit"] });
    let link = null;
    for await (const line of createInterface({ input: this.#process.stdout })) {
      this.#port = Number(/^listening on .*:(\d+)/.exec(line)?.[1] ?? this.#port);
      link = /^sign in: +(\S+)/.exec(line)?.[1] ?? link;
      if (line.startsWith("store:")) return link;
    }
    throw new Error("the server ended at its start");
  }

  async stop() {
    const ended = once(this.#process, "exit");
    this.#process.kill("SIGTERM");
    await ended;
    this.#process = null;
  }

  /** Runs a command of the program on the server's store, and returns its output. */
  command(...words) {
    return command(this.#settings, ...words);
  }

  /** Gives the user a password, which ends the user's sessions. */
  async setPassword(user, password) {
    const running = promisify(execFile)(program, ["user", "password", user], { env: this.#settings });
    running.child.stdin.end(`${password}\n`);
    await running;
  }

  get #settings() {
    return environment({
      GALVO_DATABASE_URL: `sqlite://${join(this.#directory, "galvo.db")}?mode=rwc`,
      GALVO_LOG: "warn",
      ...this.#more,
    });
  }

  async remove() {
    if (this.#process) await this.stop();
    if (this.#directory) await rm(this.#directory, { recursive: true });
  }
}

/** The cluster of live.py, with these variables in its environment. */
export class DaskCluster {
  #process;
  #answers;

  constructor(server, token, variables = {}) {
    const settings = { DASK_GALVO__SERVER: server, DASK_GALVO__TOKEN: token, ...variables };
    this.#process = spawn(python, [new URL("live.py", import.meta.url).pathname], {
      env: environment(settings),
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#answers = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
  }

  /** Runs a command, and returns its answer. */
  async command(name) {
    this.#process.stdin.write(`${name}\n`);
    const { value, done } = await this.#answers.next();
    if (done) throw new Error(`the cluster ended instead of answering ${name}`);
    return JSON.parse(value);
  }

  async close() {
    if (this.#process.exitCode !== null) return;
    const ended = once(this.#process, "exit");
    this.#process.stdin.end();
    await ended;
  }
}
