// Unmodified subscription clients. Each subscribes again by itself when its connection breaks; the
// request contains the current cursor, because variables are read whenever they are sent.
import { cacheExchange, createClient as createUrql, fetchExchange, subscriptionExchange } from "@urql/core";
import { createClient as createSse } from "graphql-sse";
import { createClient as createWs } from "graphql-ws";
import { setTimeout as wait } from "node:timers/promises";
import { WebSocket } from "ws";

const socketUrl = (url) => `${url.replace("http", "ws")}/graphql`;

const overSocket = (url, token) =>
  createWs({
    url: socketUrl(url),
    webSocketImpl: WebSocket,
    connectionParams: { Authorization: `Bearer ${token}` },
    retryAttempts: 1_000,
    retryWait: () => wait(20),
    shouldRetry: () => true,
  });

/** Adds the cursor to a subscription each time it is sent. */
const resuming = (request, cursor) => ({
  ...request,
  variables: {
    ...request.variables,
    get after() {
      return cursor();
    },
  },
});

/** By name: a function that subscribes with a sink and returns the function that unsubscribes. */
export const clients = {
  "graphql-ws"(url, token) {
    const client = overSocket(url, token);
    return (request, cursor, sink) => client.subscribe(resuming(request, cursor), sink);
  },
  "graphql-sse"(url, token) {
    const headers = { authorization: `Bearer ${token}` };
    const client = createSse({ url: `${url}/graphql`, headers, retryAttempts: 1_000, retry: () => wait(20) });
    return (request, cursor, sink) => client.subscribe(resuming(request, cursor), sink);
  },
  "urql over a WebSocket"(url, token) {
    const socket = overSocket(url, token);
    let from;
    const exchange = subscriptionExchange({
      forwardSubscription: (request) => ({
        subscribe: (sink) => ({ unsubscribe: socket.subscribe(resuming(request, from), sink) }),
      }),
    });
    const client = createUrql({ url: `${url}/graphql`, preferGetMethod: false, exchanges: [cacheExchange, fetchExchange, exchange] });
    return (request, cursor, sink) => {
      from = cursor;
      return subscribed(client, request.query, request.variables, sink);
    };
  },
  // This client does not subscribe again by itself, so its user does.
  "urql over events"(url, token) {
    const client = createUrql({
      url: `${url}/graphql`,
      preferGetMethod: false,
      fetchOptions: { headers: { authorization: `Bearer ${token}` } },
      fetchSubscriptions: true,
      exchanges: [fetchExchange],
    });
    return (request, cursor, sink) => {
      let [end, ended] = [() => {}, false];
      const begin = async () => {
        if (ended) return;
        const variables = { ...request.variables, after: cursor() };
        const again = () => setTimeout(begin, 20);
        const next = (result) => {
          // An error in a request is permanent.
          ended ||= result.errors !== undefined;
          sink.next(result);
        };
        end = subscribed(client, request.query, variables, { next, error: again, complete: again });
      };
      begin();
      return () => {
        ended = true;
        end();
      };
    };
  },
};

function subscribed(client, query, variables, sink) {
  let over = false;
  const end = () => {
    if (!over) sink.complete();
    over = true;
  };
  const { unsubscribe } = client.subscription(query, variables).subscribe(({ data, error, hasNext }) => {
    if (over) return;
    if (error?.networkError) {
      over = true;
      sink.error(error);
      return;
    }
    if (data) sink.next({ data });
    else if (error) sink.next({ errors: error.graphQLErrors });
    if (hasNext === false) end();
  });
  return () => {
    over = true;
    unsubscribe();
  };
}
