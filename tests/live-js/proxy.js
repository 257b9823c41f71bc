// What lies between a client and the server, and can break.
import { connect, createServer } from "node:net";

/** Passes on what comes for `url`, until it is told to cut. */
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
    /** How many connections were cut. */
    cuts: () => cuts,
    /** Ends every connection without a word. */
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
