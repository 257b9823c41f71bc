// nginx with TLS in front of a server, below a path, as docs/running.md configures it.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const DOCUMENT = new URL("../../docs/running.md", import.meta.url);
const PATH = `${process.env.PATH}:/usr/sbin:/usr/local/sbin`;

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

/** A proxy whose port is known before it is started. */
export class Nginx {
  #directory;
  #port;
  #process = null;

  /** Makes a certificate of an authority that only its file `authority` names. */
  static async create() {
    const nginx = new Nginx();
    nginx.#port = await freePort();
    nginx.#directory = await mkdtemp(join(tmpdir(), "nginx-"));
    const words = ["-m", "trustme", "--quiet", "--dir", nginx.#directory, "--identities", "localhost"];
    await promisify(execFile)(process.env.GALVO_PYTHON ?? "python3", words);
    return nginx;
  }

  get url() {
    return `https://localhost:${this.#port}/galvo`;
  }

  get authority() {
    return join(this.#directory, "client.pem");
  }

  /** Starts it in front of the server at this address. */
  async start(server) {
    let [, site] = /^```nginx\n(.*?)^```$/ms.exec(readFileSync(DOCUMENT, "utf8"));
    for (const [documented, here] of [
      ["listen 443 ssl;", `listen 127.0.0.1:${this.#port} ssl;`],
      ["server_name tools.example;", "server_name localhost;"],
      ["/etc/ssl/tools.example.pem", join(this.#directory, "server.pem")],
      ["/etc/ssl/private/tools.example.key", join(this.#directory, "server.key")],
      ["http://127.0.0.1:8000/", `${server}/`],
    ]) {
      if (site.split(documented).length !== 2) throw new Error(`${documented} is not once in ${DOCUMENT}`);
      site = site.replace(documented, here);
    }
    const places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
      (kind) => `${kind}_temp_path ${this.#directory}/${kind};`,
    );
    const lines = [
      ...(process.getuid() === 0 ? ["user root;"] : []),
      "daemon off;",
      `pid ${this.#directory}/pid;`,
      "error_log stderr;",
      "events {}",
      `http { access_log off; ${places.join(" ")}\n${site}}`,
    ];
    const file = join(this.#directory, "nginx.conf");
    await writeFile(file, lines.join("\n"));
    const env = { ...process.env, PATH };
    this.#process = spawn("nginx", ["-e", "stderr", "-c", file], {
      env,
      stdio: ["ignore", "ignore", "inherit"],
    });
    await once(this.#process, "spawn");
  }

  async remove() {
    if (this.#process?.exitCode === null) {
      const ended = once(this.#process, "exit");
      this.#process.kill("SIGTERM");
      await ended;
    }
    await rm(this.#directory, { recursive: true });
  }
}
