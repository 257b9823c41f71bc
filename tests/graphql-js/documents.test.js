// The guard and the reference implementation refuse the same requests, in the same phase and at the same
// position.
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { documents } from "./documents.js";
import { COERCE, PARSE, VALID, judge } from "./oracle.js";
import { start } from "./server.js";

const server = await start();
after(() => server.stop());

test("every phase has its share of the documents", () => {
  const count = (wanted) => documents.filter(({ phase }) => phase === wanted).length;
  assert.ok(documents.length >= 250, `${documents.length}`);
  assert.ok(count(PARSE) >= 40 && count(COERCE) >= 35 && count(VALID) >= 60);
  assert.equal(new Set(documents.map(({ phase, name }) => `${phase} ${name}`)).size, documents.length);
});

for (const { phase, name, query, variables: given, operationName } of documents) {
  test(`${phase}: ${name}`, async () => {
    const variables = typeof given === "string" ? JSON.parse(given) : given;
    const judged = judge({ query, variables, operationName });
    assert.equal(judged.phase, phase, "the reference implementation");
    const { status, text } = await server.ask({ query, variables, operationName });
    const answer = JSON.parse(text);
    if (phase === VALID) {
      assert.equal(status, 200, text);
      assert.ok("data" in answer, text);
      assert.ok(!answer.errors || answer.errors.every(({ path }) => path), text);
      return;
    }
    const [first] = answer.errors;
    assert.equal(first.extensions.code, phase, text);
    assert.equal(status, 400, text);
    assert.ok(!("data" in answer), text);
    assert.ok(answer.errors.every(({ path }) => path === undefined), text);
    // The first reported position is one that the reference implementation reports, too.
    for (const { line, column } of first.locations ?? []) {
      assert.ok(judged.places.includes(`${line}:${column}`), `${text}: expected ${judged.places}`);
    }
  });
}
