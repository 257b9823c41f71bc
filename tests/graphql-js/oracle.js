// The verdict of the reference implementation on a request: the phase that refuses it, and the position.
import {
  Lexer,
  Source,
  buildSchema,
  getOperationAST,
  getLocation,
  getVariableValues,
  parse,
  validate,
  valueFromASTUntyped,
  visit,
} from "graphql";

import { sdl } from "./server.js";

/** The phases before execution, by the code of their errors. */
export const PARSE = "GRAPHQL_PARSE_FAILED";
export const VALIDATE = "GRAPHQL_VALIDATION_FAILED";
export const OPERATION = "OPERATION_RESOLUTION_FAILURE";
export const COERCE = "BAD_USER_INPUT";
/** The result if no phase refuses the request. */
export const VALID = "VALID";

const NUMBER_OF_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function isDate(text) {
  const parts = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text);
  if (!parts) return false;
  const [year, month, day] = parts.slice(1).map(Number);
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return year >= 1970 && day >= 1 && day <= (month === 2 && leap ? 29 : (NUMBER_OF_DAYS[month - 1] ?? 0));
}

function isDateTime(text) {
  const parts = /^(\d{4}-\d{2}-\d{2})T(\d{2}):(\d{2}):(\d{2})(\.\d+)?(Z|[+-]\d{2}:\d{2})$/.exec(text);
  return !!parts && isDate(parts[1]) && parts[2] < 24 && parts[3] < 60 && parts[4] < 60;
}

/** Returns the schema; its custom scalars follow the rules in their descriptions. */
export function schemaWithScalars() {
  const schema = buildSchema(sdl);
  for (const [name, takes] of [
    ["Date", isDate],
    ["DateTime", isDateTime],
  ]) {
    const scalar = schema.getType(name);
    scalar.parseValue = (value) => {
      if (typeof value === "string" && takes(value)) return value;
      throw new TypeError(`no ${name}`);
    };
    scalar.parseLiteral = (node) => scalar.parseValue(valueFromASTUntyped(node));
  }
  return schema;
}

const schema = schemaWithScalars();

const place = ({ line, column }) => `${line}:${column}`;

/**
 * Returns the start of each node, its parent and its children: servers differ in which of them they
 * name.
 */
function placesOf(nodes, document) {
  const around = new Set();
  visit(document, {
    enter(node, _key, holder, _path, ancestors) {
      // Some nodes are in a list of their parent.
      const parent = holder?.kind ? holder : ancestors.at(-1);
      if (nodes.includes(node) || nodes.includes(parent)) around.add(node);
      if (nodes.includes(node) && parent) around.add(parent);
    },
  });
  return [...around].map((node) => place(getLocation(node.loc.source, node.loc.start)));
}

/** Returns the position of a syntax error, and the start of the token that contains it. */
function placesIn(query, error) {
  const found = error.locations.map(place);
  const lexer = new Lexer(new Source(query));
  try {
    while (lexer.advance().kind !== "<EOF>");
  } catch {
    const rest = /^(?:[\s,\uFEFF]|#[^\n\r]*)*/.exec(query.slice(lexer.token.end))[0];
    found.push(place(getLocation(new Source(query), lexer.token.end + rest.length)));
  }
  return found;
}

/** Returns the phase that refuses a request, and the positions its errors may name, as `line:column`. */
export function judge({ query, variables, operationName }) {
  let document;
  try {
    document = parse(query);
  } catch (error) {
    return { phase: PARSE, places: placesIn(query, error) };
  }
  const errors = validate(schema, document);
  const near = (found) => placesOf(found.flatMap(({ nodes }) => nodes ?? []), document);
  if (errors.length > 0) return { phase: VALIDATE, places: near(errors) };
  const operation = getOperationAST(document, operationName);
  if (!operation) return { phase: OPERATION, places: [] };
  const coerced = getVariableValues(schema, operation.variableDefinitions ?? [], variables ?? {});
  if (coerced.errors) return { phase: COERCE, places: near(coerced.errors) };
  return { phase: VALID, places: [] };
}
