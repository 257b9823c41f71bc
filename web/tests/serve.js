// Serves `dist` as the server does, and passes everything else on to a running server:
//   node tests/serve.js [PORT]    GALVO_URL=http://127.0.0.1:8000
import { createReadStream, existsSync, readFileSync, statSync } from "node:fs";
import { createServer, request } from "node:http";
import { connect } from "node:net";
import { extname, join, normalize } from "node:path";
import { pathToFileURL } from "node:url";

// DIST is another build than `dist`, with a slash at its end.
const dist = process.env.DIST ?? new URL("../dist/", import.meta.url).pathname;

export const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "font-src 'self'",
  "form-action 'self'",
  // The page has a <base> of its own origin.
  "base-uri 'self'",
  "frame-ancestors 'none'",
].join("; ");

const TYPES = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".json": "application/json",
};

const FIRST =
  /^\/(graphql|api|sign-in|sign-out|password|activate-token|reports|healthz|readyz|metrics)(\/|$)/;

/** Starts the server and returns it with its address. With EMBEDDED=1 it is that of Galvo, whose own pages are used. */
export async function serve({ port = 0, galvo }) {
  if (process.env.EMBEDDED) return { server: { close() {} }, url: galvo };
  const target = new URL(galvo);
  const server = createServer((incoming, outgoing) => {
    const path = new URL(incoming.url, "http://localhost").pathname;
    if (FIRST.test(path)) return passOn(incoming, outgoing, target);
    if (path.startsWith("/assets/")) return sendAsset(incoming, path, outgoing);
    outgoing.writeHead(200, {
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy": CONTENT_SECURITY_POLICY,
      "Cache-Control": "no-store",
    });
    outgoing.end(readFileSync(join(dist, "index.html")));
  });
  server.on("upgrade", (incoming, socket, head) => {
    const upstream = connect(Number(target.port), target.hostname, () => {
      const lines = [`${incoming.method} ${incoming.url} HTTP/1.1`];
      for (let i = 0; i < incoming.rawHeaders.length; i += 2) {
        lines.push(`${incoming.rawHeaders[i]}: ${incoming.rawHeaders[i + 1]}`);
      }
      upstream.write(`${lines.join("\r\n")}\r\n\r\n`);
      upstream.write(head);
      upstream.pipe(socket).pipe(upstream);
    });
    upstream.on("error", () => socket.destroy());
    socket.on("error", () => upstream.destroy());
  });
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return { server, url: `http://127.0.0.1:${server.address().port}` };
}

function passOn(incoming, outgoing, target) {
  // `Host` stays that of the page, so that the server's checks of the origin hold.
  const upstream = request(
    {
      host: target.hostname,
      port: target.port,
      method: incoming.method,
      path: incoming.url,
      headers: incoming.headers,
    },
    (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
    },
  );
  upstream.on("error", () => outgoing.destroy());
  incoming.pipe(upstream);
}

function sendAsset(incoming, path, outgoing) {
  const file = join(dist, normalize(path));
  if (!file.startsWith(dist) || !existsSync(file)) {
    outgoing.writeHead(404).end();
    return;
  }
  const accepts = String(incoming.headers["accept-encoding"] ?? "");
  const encoding = accepts.includes("br") && existsSync(`${file}.br`) ? "br" : null;
  const sent = encoding ? `${file}.br` : file;
  outgoing.writeHead(200, {
    "Content-Type": TYPES[extname(file)] ?? "application/octet-stream",
    "Content-Length": statSync(sent).size,
    "Cache-Control": "public, max-age=31536000, immutable",
    ...(encoding ? { "Content-Encoding": encoding } : {}),
  });
  createReadStream(sent).pipe(outgoing);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { url } = await serve({
    port: Number(process.argv[2] ?? 8080),
    galvo: process.env.GALVO_URL ?? "http://127.0.0.1:8000",
  });
  console.log(url);
}
