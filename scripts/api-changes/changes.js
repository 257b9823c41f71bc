/*
 * changes.js graphql|openapi NEW [OLD TAG]: prints what changed in an API between two of its documents, as Markdown: what
 * breaks clients, what may, and what does not. Changed descriptions are left out. Without OLD the release is the first
 * one, and only the document is checked.
 */
import { readFileSync } from "node:fs";
import { CriticalityLevel, diff } from "@graphql-inspector/core";
import { apiDiff } from "api-smart-diff";
import { assertValidSchema, buildSchema } from "graphql";

const KINDS = ["Breaking", "Dangerous", "Safe"];
const APIS = {
  graphql: { title: "Changes of the GraphQL schema", changes: graphqlChanges },
  openapi: { title: "Changes of the REST API", changes: openapiChanges },
};

const [name, newFile, oldFile, tag] = process.argv.slice(2);
const api = APIS[name];
const read = (file) => readFileSync(file, "utf8");
const changes = await api.changes(oldFile === undefined ? undefined : read(oldFile), read(newFile));
const parts = [`# ${api.title}`];
if (oldFile === undefined) {
  parts.push("There is no earlier release: this is the first release.");
} else {
  const counts = KINDS.map((kind) => `${changes[kind].length} ${kind.toLowerCase()}`).join(", ");
  parts.push(`Since ${tag}: ${counts}.`);
  for (const kind of KINDS) {
    // The same type can be in many places.
    const lines = [...new Set(changes[kind])].sort().map((line) => `- ${line}`);
    if (lines.length > 0) parts.push(`## ${kind}`, lines.join("\n"));
  }
}
process.stdout.write(`${parts.join("\n\n")}\n`);

/** Returns the changes of a schema by kind. A schema that is not valid is an error. */
async function graphqlChanges(before, after) {
  const [newSchema, oldSchema] = [after, before ?? after].map((text) => buildSchema(text));
  assertValidSchema(newSchema);
  const kinds = {
    [CriticalityLevel.Breaking]: "Breaking",
    [CriticalityLevel.Dangerous]: "Dangerous",
    [CriticalityLevel.NonBreaking]: "Safe",
  };
  const found = (await diff(oldSchema, newSchema)).filter(({ type }) => !type.includes("_DESCRIPTION_"));
  return byKind(found, (change) => [kinds[change.criticality.level], change.message]);
}

/** Returns the changes of an OpenAPI document by kind. What the comparison cannot classify is dangerous. */
function openapiChanges(before, after) {
  const [newDocument, oldDocument] = [after, before ?? after].map((text) => JSON.parse(text));
  const kinds = { breaking: "Breaking", unclassified: "Dangerous" };
  // Types count where a route uses them: only there is it known who sends them.
  const found = apiDiff(oldDocument, newDocument).filter(
    ({ path, type }) => path[0] === "paths" && type !== "annotation",
  );
  return byKind(found, (change) => {
    const [, route, method] = change.path;
    const place = method === undefined ? route : `${String(method).toUpperCase()} ${route}`;
    return [kinds[change.type] ?? "Safe", `${place}: ${describe(change)}`];
  });
}

/** Returns the description of a change of a route, such as "Added property `name` in …". */
function describe({ description, path, before, after }) {
  const text = description.replace(/^\[(\w+)\]/, "$1");
  // The comparison calls every parameter required.
  const isOptional = path[3] === "parameters" && path.length === 5 && !(after ?? before).required;
  return isOptional ? text.replace("required", "optional") : text;
}

function byKind(found, describe) {
  const changes = Object.fromEntries(KINDS.map((kind) => [kind, []]));
  for (const change of found) {
    const [kind, text] = describe(change);
    changes[kind].push(text.replaceAll(/\s+/g, " "));
  }
  return changes;
}
