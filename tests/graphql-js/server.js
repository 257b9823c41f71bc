// The server program on a separate store, started as by an operator, and one account's token.
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../", import.meta.url));
const program = process.env.GALVO_BIN ?? join(root, "target/debug/galvo");

/** The committed schema, which a test of the server compares with the served one. */
export const sdl = await readFile(join(root, "schema.graphql"), "utf8");

/** Starts a server, with optional further arguments and variables. The caller has to stop it. */
export async function start({ more = [], variables = {}, listen = "127.0.0.1:0" } = {}) {
  const directory = await mkdtemp(join(tmpdir(), "galvo-graphql-js-"));
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("GALVO_"));
  const environment = { ...Object.fromEntries(inherited), ...variables };
  const database = ["--database-url", `sqlite://${join(directory, "galvo.db")}?mode=rwc`];
  const child = spawn(
    program,
    [
      ["serve", "--bootstrap", "--listen", listen, "--log", "warn"],
      database,
      ["--query-cost-per-minute", "1000000000"],
      more,
    ].flat(),
    { env: environment, stdio: ["ignore", "pipe", "inherit"] },
  );
  // Also if a test ends this process before it calls `stop`.
  process.on("exit", () => child.kill("SIGKILL"));
  const ended = new Promise((resolve, reject) => child.on("error", reject).on("exit", resolve));
  const server = { url: undefined, token: undefined };
  for await (const line of createInterface(child.stdout)) {
    server.url ??= /^listening on (.+)$/.exec(line)?.[1];
    server.token ??= /^token: +(\S+)/.exec(line)?.[1];
    if (server.url && server.token) break;
  }
  if (!server.token) throw new Error(`${program} did not start: ${await ended}`);
  // The remaining output is not needed.
  child.stdout.resume();

  /** Calls `fetch` with the token. */
  const authorized = (url, options = {}) => {
    const headers = new Headers(options.headers);
    headers.set("authorization", `Bearer ${server.token}`);
    return fetch(url, { ...options, headers });
  };
  const post = (path, body, headers = {}) =>
    authorized(server.url + path, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    });
  return {
    url: server.url,
    token: server.token,
    endpoint: `${server.url}/graphql`,
    /** Runs a command of the program on the same store. */
    async command(words, input = "") {
      const command = spawn(program, [...words, ...database], { env: environment, stdio: ["pipe", "ignore", "inherit"] });
      command.stdin.end(input);
      const status = await new Promise((resolve, reject) => command.on("error", reject).on("exit", resolve));
      if (status !== 0) throw new Error(`${words.join(" ")} ended with ${status}`);
    },
    authorized,
    /**
     * Returns the status and text of an answer in the media type that expresses refusals by the
     * status.
     */
    async ask(parameters) {
      const response = await post("/graphql", parameters, { accept: "application/graphql-response+json" });
      return { status: response.status, text: await response.text() };
    },
    /** Returns the data of an answer without errors. */
    async data(query, variables = {}) {
      const { text } = await this.ask({ query, variables });
      const { data, errors } = JSON.parse(text);
      if (errors) throw new Error(`${query}: ${text}`);
      return data;
    },
    /** Sends a report, which must be accepted. */
    async report(report) {
      const response = await post("/api/v1/reports", report);
      if (response.status !== 200) throw new Error(await response.text());
      return response.json();
    },
    async stop() {
      child.kill("SIGTERM");
      const status = await ended;
      await rm(directory, { recursive: true });
      if (status !== 0) throw new Error(`the server ended with ${status}`);
    },
  };
}
