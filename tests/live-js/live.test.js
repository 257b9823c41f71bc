// Subscriptions with the published clients, unmodified.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";

import { createClient } from "graphql-sse";
import { createClient as createWs } from "graphql-ws";
import { WebSocket } from "ws";

import { start } from "../graphql-js/server.js";
import { clients } from "./clients.js";
import { Feed, until } from "./feed.js";
import { proxy } from "./proxy.js";

const EVENTS = `subscription Events($account: String!, $after: String) {
  events(account: $account, after: $after) { cursor gap events { data } } }`;

let [server, feed] = [];
before(async () => {
  server = await start();
  feed = new Feed(server);
});
after(async () => {
  await server.stop();
});

/**
 * Subscribes to events with a client, after all existing ones, and returns the events received so far.
 */
async function heard(subscribe) {
  const { viewer } = await server.data("{ viewer { account { liveCursor } } }");
  const all = { numbers: [], gaps: 0, cursor: viewer.account.liveCursor, errors: [], completed: false };
  const sink = {
    next({ data, errors }) {
      if (errors) return void all.errors.push(errors);
      const { cursor, gap, events } = data.events;
      all.cursor = cursor;
      all.gaps += gap;
      all.numbers.push(...events.map((event) => event.data.number));
    },
    error: (error) => all.errors.push(error),
    complete: () => (all.completed = true),
  };
  const request = { query: EVENTS, variables: { account: "default" } };
  all.end = subscribe(request, () => all.cursor, sink);
  return all;
}

for (const [name, connect] of Object.entries(clients)) {
  test(`${name} hears all events once and in order, though its connection breaks`, async () => {
    const between = await proxy(server.url);
    const all = await heard(connect(between.url, server.token));
    const first = feed.last + 1;
    let breaking = true;
    const breaks = (async () => {
      while (breaking) {
        await wait(150 + Math.random() * 200);
        between.cut();
      }
    })();
    await feed.go(150, 10);
    breaking = false;
    await breaks;
    await feed.go(10, 10);
    await until(() => all.numbers.at(-1) === feed.last, () => JSON.stringify(all));
    assert.deepEqual(all.numbers, Array.from({ length: feed.last - first + 1 }, (_, place) => first + place));
    assert.equal(all.gaps, 0);
    assert.deepEqual(all.errors, []);
    assert.ok(between.cuts() >= 3, `${between.cuts()} connections were cut`);
    all.end();
    await between.stop();
  });

  test(`${name} is told what is wrong with a subscription`, async () => {
    const subscribe = connect(server.url, server.token);
    const request = { query: "subscription { nonsense }", variables: {} };
    let end;
    const errors = await new Promise((resolve, reject) => {
      end = subscribe(request, () => undefined, {
        next: (result) => resolve(result.errors),
        error: (error) => resolve(error.graphQLErrors ?? error),
        complete: () => reject(new Error("it is over without a word")),
      });
    });
    // Waits for the rest of the answer: urql reports an unhandled error if it is interrupted.
    await wait(100);
    end();
    assert.equal(errors[0].extensions.code, "GRAPHQL_VALIDATION_FAILED", JSON.stringify(errors));
  });
}

test("graphql-ws does not come back with a token that is no good", async () => {
  const url = `${server.url.replace("http", "ws")}/graphql`;
  let connections = 0;
  const client = createWs({
    url,
    webSocketImpl: WebSocket,
    connectionParams: { authorization: "Bearer nonsense" },
    retryWait: () => wait(10),
    on: { connecting: () => (connections += 1) },
  });
  const error = await new Promise((resolve) => {
    client.subscribe({ query: "{ __typename }" }, { next() {}, error: resolve, complete() {} });
  });
  assert.deepEqual([error.code, error.reason, connections], [4401, "Unauthorized", 1]);
});

test("queries and mutations go the same ways", async () => {
  const url = `${server.url.replace("http", "ws")}/graphql`;
  const authorization = `Bearer ${server.token}`;
  const overSocket = createWs({ url, webSocketImpl: WebSocket, connectionParams: { authorization } });
  const overEvents = createClient({ url: `${server.url}/graphql`, headers: { authorization } });
  const query = "{ viewer { user { name } } }";
  for (const client of [overSocket, overEvents]) {
    const results = [];
    for await (const { data } of client.iterate({ query })) results.push(data);
    assert.deepEqual(results, [{ viewer: { user: { name: "admin" } } }]);
    await client.dispose();
  }
});
