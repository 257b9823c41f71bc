// The audits of GraphQL over HTTP that come with the package graphql-http.
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
