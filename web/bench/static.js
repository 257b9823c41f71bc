// A server of files, and of an empty page.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css" };
const EMPTY =
  "<!doctype html><html lang=en><title>Empty</title><nav><a href=/>Start</a></nav><h1>Empty</h1></html>";

async function listen(answer) {
  const server = createServer(answer);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

/** Serves a directory. */
export function serveDirectory(directory) {
  return listen(async (incoming, outgoing) => {
    const { pathname } = new URL(incoming.url, "http://localhost");
    const path = join(directory, normalize(pathname === "/" ? "index.html" : pathname));
    try {
      const content = await readFile(path);
      outgoing.writeHead(200, { "Content-Type": TYPES[extname(path)] ?? "application/octet-stream" });
      outgoing.end(content);
    } catch {
      outgoing.writeHead(404).end();
    }
  });
}

/** Serves a page of one heading. */
export function serveEmptyPage() {
  return listen((_, outgoing) => {
    outgoing.writeHead(200, { "Content-Type": TYPES[".html"], "Cache-Control": "no-store" });
    outgoing.end(EMPTY);
  });
}
