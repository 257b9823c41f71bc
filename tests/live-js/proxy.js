// A proxy between a client and the server, whose connections can be cut.
import { connect, createServer } from "node:net";

/** Starts a proxy that forwards connections to `url` until they are cut. */
export async function proxy(url) {
  const { hostname, port } = new URL(url);
  const open = new Set();
  const server = createServer((inner) => {
    const outer = connect(Number(port), hostname);
    const pair = [inner, outer];
    pair.forEach((socket, place) => {
      open.add(socket);
      socket.pipe(pair[1 - place]);
      socket.on("error", () => {}).on("close", () => {
        open.delete(socket);
        pair[1 - place].destroy();
      });
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  let cuts = 0;
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    /** Returns the number of connections that were cut. */
    cuts: () => cuts,
    /** Resets every connection. */
    cut() {
      for (const socket of open) socket.resetAndDestroy();
      cuts += open.size / 2;
      open.clear();
    },
    async stop() {
      this.cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
