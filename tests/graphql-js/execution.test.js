// Answers equal those of the reference implementation for the same data, to the byte: the order of keys,
// merged and skipped fields, and the fields nulled by an error.
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { reports } from "./report.js";
import { start } from "./server.js";
import { world } from "./world.js";

const server = await start();
after(() => server.stop());
for (const report of reports) await server.report(report);
const reference = await world(server);

// The newer cluster comes first.
const [idle, busy] = reference.clusters;
const ids = {
  id: busy.id,
  idle: idle.id,
  group: busy.taskGroups.edges[0].node.id,
  error: busy.errors.edges[0].node.id,
  computation: busy.computations.edges[0].node.id,
  cursor: busy.taskGroups.edges[0].cursor,
};

const cluster = (selection) => `query($id: ID!) { cluster(id: $id) { ${selection} } }`;

const requests = [
  ["keys stand in the order of the query", "{ viewer { user { name id } scopes account { slug name id } } }"],
  ["fields that wait do not change it", cluster("errors { totalCount nodes { taskGroup { name } key } } number taskGroups { nodes { dependencies { name } name } } state user { name }")],
  ["aliases", "{ z: viewer { y: scopes x: user { b: id a: name } } a: viewer { scopes } }"],
  ["an alias that is another field's name", cluster("state: schedulerId schedulerId: state number")],
  ["one field under several aliases", cluster("a: taskGroups(first: 1) { nodes { name } } b: taskGroups(last: 1) { nodes { name } } c: taskGroups { totalCount }")],
  ["the same field again", "{ viewer { user { id } account { slug } user { name } } viewer { scopes account { id } } }"],
  ["fragments are merged where they stand first", "{ viewer { ...A scopes user { name } } } fragment A on Viewer { user { id } account { slug } }"],
  ["fragments in the wrong order", "fragment B on User { name ...C } { viewer { account { id } ...A account { slug } } } fragment C on User { id } fragment A on Viewer { user { ...B } account { name } }"],
  ["a fragment before and after a field", cluster("...A number ...B") + " fragment A on Cluster { state } fragment B on Cluster { state number schedulerId }"],
  ["lists are merged item by item", cluster("taskGroups { nodes { name } } ...A taskGroups { nodes { prefix } totalCount }") + " fragment A on Cluster { taskGroups { nodes { states { state } } pageInfo { hasNextPage } nodes { states { count } } } }"],
  ["inline fragments with and without type", "{ viewer { ... { scopes } ... on Viewer { user { ... on Node { id } ... on User { name } } } } }"],
  ["fragments of other types are left out", `query($id: ID!) { node(id: $id) { ... on TaskGroup { name } ... on Cluster { number } id ... on Node { __typename } } }`],
  ["nodes of all kinds", "query($id: ID!, $group: ID!, $error: ID!, $computation: ID!) { a: node(id: $id) { ...N } b: node(id: $group) { ...N } c: node(id: $error) { ...N } d: node(id: $computation) { ...N } } fragment N on Node { __typename id ... on Cluster { schedulerId } ... on TaskGroup { prefix bytes } ... on ErrorOccurrence { key message } ... on Computation { state } }"],
  ["__typename everywhere", "{ __typename viewer { t: __typename account { __typename clusters { __typename edges { __typename node { __typename } } pageInfo { __typename } } } } }"],
  ["edges and nodes", cluster("computations { edges { cursor node { state taskGroups { edges { node { name } } } } } nodes { startedAt } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } totalCount }")],
  ["a page after a cursor", "query($id: ID!, $cursor: String) { cluster(id: $id) { taskGroups(first: 1, after: $cursor) { nodes { name } pageInfo { hasNextPage hasPreviousPage } } } }"],
  ["a page before a cursor", "query($id: ID!, $cursor: String) { cluster(id: $id) { taskGroups(last: 5, before: $cursor) { nodes { name } pageInfo { hasNextPage hasPreviousPage } } } }"],
  ["empty lists", "query($idle: ID!) { cluster(id: $idle) { computations { nodes { id } edges { cursor } totalCount pageInfo { startCursor endCursor } } errors { nodes { key } } } }"],
  ["what is null", cluster("name endedAt closeReason now { memoryLimit workers } errors { nodes { worker } }")],
  ["what is not there", '{ a: cluster(id: "0") { number } b: account(slug: "x") { slug } c: node(id: "x") { id } viewer { scopes } }'],
  ["texts that need escapes", cluster("errors { nodes { message traceback } }")],
  ["JSON of others", cluster("events { nodes { topic data } }")],
  ["numbers", cluster("totals { tasks errors bytes computeSeconds transferSeconds } now { memoryUsed threads } taskGroups { nodes { durations { seconds action } } }")],
  ["deep and back again", cluster("errors { nodes { taskGroup { cluster { computations { nodes { errors { nodes { cluster { number } } } } } } dependencies { dependencies { name } name } } } }")],
  ["@skip and @include", "{ viewer @include(if: true) { scopes @skip(if: true) user @skip(if: false) { name } account @include(if: false) { slug } } }"],
  ["both on one field", "{ a: __typename @skip(if: false) @include(if: true) b: __typename @skip(if: true) @include(if: true) c: __typename @skip(if: false) @include(if: false) }"],
  ["everything skipped below", "{ viewer { user @skip(if: true) { name } } }"],
  ["directives on fragments", "query($yes: Boolean!, $no: Boolean! = false) { viewer { ...A @include(if: $no) ... @skip(if: $no) { scopes } ... on Viewer @include(if: $yes) { account { slug } } ...A @skip(if: $no) } } fragment A on Viewer { user { name } }", { yes: true }],
  ["a field that is skipped once and not the next time", "{ viewer { user @skip(if: true) { id } account { slug } user { name } } }"],
  ["one of several operations", "query A { viewer { scopes } } query B($id: ID!) { cluster(id: $id) { ...F } } fragment F on Cluster { number }", undefined, "B"],
  ["another of them", "query A { viewer { scopes } } query B($id: ID!) { cluster(id: $id) { ...F } } fragment F on Cluster { number }", undefined, "A"],
  ["variables of one name in two operations", "query A($n: Int) { viewer { account { clusters(first: $n) { nodes { number } } } } } query B($n: String!) { account(slug: $n) { slug } }", { n: 1 }, "A"],
  ["an error takes its nullable parent", cluster("number taskGroups(first: 1000000) { nodes { name } } state")],
  ["an error takes the whole answer", '{ viewer { account { clusters(after: "x") { totalCount } } scopes } }'],
  ["an error leaves the rest", "query($id: ID!) { a: cluster(id: $id) { number } b: cluster(id: $id) { taskGroups(first: 0) { totalCount } } c: cluster(id: $id) { state } }"],
  ["an error in an item of a list", cluster("errors(first: 1) { nodes { key cluster { errors(first: -1) { totalCount } } } }")],
  ["an error below one that may be null", cluster("number errors(first: 1) { nodes { key computation { state errors(first: 1000000) { totalCount } } } }")],
  ["an error in edges", cluster("number errors(first: 1) { edges { cursor node { taskGroup { name cluster { errors(last: 101) { totalCount } } } } } }")],
  ["two errors in two places", "query($id: ID!) { a: cluster(id: $id) { taskGroups(first: 0) { totalCount } } b: cluster(id: $id) { number } c: cluster(id: $id) { errors(last: 0) { totalCount } } }"],
  ["errors in items that may each be null", cluster("errors { nodes { key computation { errors(first: 1, last: 1) { totalCount } } } }")],
  ["an error under an alias", cluster("x: number y: taskGroups(first: 0) { z: totalCount }")],
  ["an error in a field that is skipped", cluster("number taskGroups(first: 0) @skip(if: true) { totalCount }")],
  ["an error in a fragment", cluster("number ...A") + " fragment A on Cluster { computations(first: 1000000) { totalCount } }"],
  ["an error in a node", "query($id: ID!) { node(id: $id) { id ... on Cluster { errors(first: 0) { totalCount } } } viewer { scopes } }"],
  ["changes one after the other", "mutation($id: ID!) { a: setDesiredState(cluster: $id, state: STOPPED) { cluster { desiredState number } } b: setDesiredState(cluster: $id, state: RUNNING) { cluster { desiredState } } }"],
  ["a change of what is not there", 'mutation { setDesiredState(cluster: "x", state: STOPPED) { cluster { id } } }'],
  ["a change after one that failed", 'mutation($id: ID!) { x: setDesiredState(cluster: "x", state: STOPPED) { cluster { id } } y: setDesiredState(cluster: $id, state: STOPPED) { cluster { desiredState } } }'],
  ["what is so afterwards", cluster("desiredState")],
  ["a type of the schema", '{ __type(name: "ClusterFilter") { kind name description fields { name } inputFields { name description defaultValue type { kind name ofType { kind name ofType { name } } } } enumValues { name } } }'],
  ["an interface of the schema", '{ __type(name: "Node") { kind name description fields { name args { name } type { kind name ofType { kind name } } isDeprecated deprecationReason } ofType { name } } }'],
  ["a word of the schema", '{ __type(name: "OrderDirection") { kind name enumValues(includeDeprecated: true) { name description isDeprecated } } }'],
  ["an object of the schema", '{ __type(name: "Account") { kind name fields { name args { name defaultValue type { kind name ofType { kind name } } } type { kind name ofType { kind name } } } interfaces { name } } }'],
  ["the roots of the schema", "{ __schema { queryType { name } mutationType { name } subscriptionType { name } } }"],
];

// If neither the field nor its ancestors are nullable, an error known before execution is a request
// error.
const refused = [
  ["a page that is too long", "{ viewer { account { clusters(first: 1000000) { totalCount } } scopes } }"],
  ["the same by a variable", "query($n: Int) { viewer { account { clusters(first: $n) { totalCount } } } }", { n: 0 }],
  ["a page from both ends", "{ viewer { account { clusters(first: 1, last: 1) { totalCount } } } }"],
  ["days that end before they begin", '{ viewer { account { usage(from: "2026-11-20", to: "2026-11-19") { threadSeconds } } } }'],
];

for (const [name, query, variables] of refused) {
  test(name, async () => {
    const { text } = await server.ask({ query, variables });
    const { errors, ...rest } = JSON.parse(text);
    assert.deepEqual(rest, {});
    assert.deepEqual(errors.map(({ path, extensions }) => [path, extensions.code]), [[undefined, "BAD_USER_INPUT"]]);
  });
}

test("there are enough of them", () => assert.ok(requests.length >= 45));

/** Converts the numbers in JSON to JavaScript's notation: 2.0 and 2 become equal. */
const withJavaScriptNumbers = (json) =>
  json.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, (token) =>
    token.startsWith('"') ? token : String(Number(token)),
  );

/** Returns the parts of errors that are compared: the messages are implementation-specific. */
const told = (errors = []) =>
  errors.map(({ path, locations, extensions }) => JSON.stringify([path, locations, extensions.code])).sort();

for (const [name, query, given, operationName] of requests) {
  test(name, async () => {
    const variables = { ...ids, ...given };
    const { text } = await server.ask({ query, variables, operationName });
    const expected = JSON.parse(JSON.stringify(await reference.answer({ query, variables, operationName })));
    const data = `{"data":${JSON.stringify(expected.data)}`;
    assert.equal(withJavaScriptNumbers(text).slice(0, data.length), data);
    assert.match(withJavaScriptNumbers(text)[data.length], /[,}]/);
    assert.deepEqual(told(JSON.parse(text).errors), told(expected.errors), text);
  });
}
