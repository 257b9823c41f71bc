// The audits of GraphQL over HTTP from the package graphql-http.
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { serverAudits } from "graphql-http";

import { start } from "./server.js";

const server = await start();
after(() => server.stop());

const audits = serverAudits({ url: server.endpoint, fetchFn: server.authorized });

test("there are 61 audits", () => assert.equal(audits.length, 61));

for (const audit of audits) {
  test(`${audit.id} ${audit.name}`, async () => {
    const result = await audit.fn();
    assert.equal(result.status, "ok", result.reason);
  });
}

// Cases that the package does not cover.
const accepting = (accept, query = "{ __typename }") =>
  server.authorized(server.endpoint, {
    method: "POST",
    headers: { accept, "content-type": "application/json" },
    body: JSON.stringify({ query }),
  });

for (const [accept, status, type] of [
  ["application/json;q=0, application/graphql-response+json", 200, "application/graphql-response+json; charset=utf-8"],
  ["application/graphql-response+json;q=0, */*", 200, "application/json; charset=utf-8"],
  ["application/json;q=0, */*;q=0.1", 200, "application/graphql-response+json; charset=utf-8"],
  ["application/json;q=0.5, application/graphql-response+json;q=0.9", 200, "application/graphql-response+json; charset=utf-8"],
  ["application/json;q=0", 406, "application/json"],
  ["*/*;q=0", 406, "application/json"],
]) {
  test(`a weight is honoured: ${accept}`, async () => {
    const answer = await accepting(accept);
    await answer.text();
    assert.deepEqual([answer.status, answer.headers.get("content-type")], [status, type]);
  });
}

for (const names of [["operationName"], ["variables"], ["extensions"], ["operationName", "variables", "extensions"]]) {
  test(`empty in an address: ${names}`, async () => {
    const url = new URL(server.endpoint);
    url.searchParams.set("query", "{ __typename }");
    for (const name of names) url.searchParams.set(name, "");
    const answer = await server.authorized(url);
    assert.equal(answer.status, 200);
    assert.deepEqual((await answer.json()).data, { __typename: "Query" });
  });
}
