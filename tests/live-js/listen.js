// Subscribes to an account's errors with an unmodified client, and prints each payload on a line.
// Usage: node listen.js CLIENT URL CURSOR, with the token in GALVO_TOKEN
import { clients } from "./clients.js";

const ERRORS = `subscription Errors($after: String) {
  errors(account: "default", after: $after) { cursor gap errors { id key } } }`;

const [name, url, after] = process.argv.slice(2);
let cursor = after;
const sink = {
  next({ data, errors }) {
    if (data) cursor = data.errors.cursor;
    console.log(JSON.stringify(data?.errors ?? { wrong: errors }));
  },
  error(error) {
    throw error;
  },
  complete() {},
};
clients[name](url, process.env.GALVO_TOKEN)({ query: ERRORS, variables: {} }, () => cursor, sink);
