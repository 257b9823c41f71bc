// Fails if the build is larger than its budget, in bytes after gzip -9.
import { readdirSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

const KB = 1000;
const BUDGET = { firstScript: 180 * KB, firstStyle: 15 * KB, route: 40 * KB, popups: 50 * KB, all: 350 * KB };
// The first is loaded only by a server that does not know the documents of this build; the second is a page of
// its own.
const NOT_COUNTED = /^(persisted-documents|graphiql)-/;

const dist = process.env.DIST ? pathToFileURL(process.env.DIST) : new URL("../dist/", import.meta.url);
const assets = new URL("assets/", dist);
const names = readdirSync(assets).filter((name) => /\.(js|css)$/.test(name) && !NOT_COUNTED.test(name));
const size = new Map(
  names.map((name) => [name, gzipSync(readFileSync(new URL(name, assets)), { level: 9 }).length]),
);

const html = readFileSync(new URL("index.html", dist), "utf8");
const first = names.filter((name) => new RegExp(`(src|href)="[^"]*/${name}"`).test(html));
const sum = (list) => list.reduce((total, name) => total + (size.get(name) ?? 0), 0);

/** Returns the files that a file imports statically, with those that they import. */
function imports(name, known = new Set()) {
  if (known.has(name)) return known;
  known.add(name);
  const text = readFileSync(new URL(name, assets), "utf8");
  for (const [, next] of text.matchAll(/(?:from|import)\s*["']\.\/([^"']+\.js)["']/g)) imports(next, known);
  return known;
}

const entry = first.find((name) => name.startsWith("index-") && name.endsWith(".js"));
const initial = new Set([...first, ...(entry ? imports(entry) : [])]);

/** Returns what each part that is loaded later adds to those that are loaded before it. */
function additions(loaded, from, known = new Map()) {
  for (const name of from) {
    const text = readFileSync(new URL(name, assets), "utf8");
    for (const [, next] of text.matchAll(/import\(\s*[`"']\.\/([^`"']+\.js)[`"']/g)) {
      if (NOT_COUNTED.test(next) || known.has(next)) continue;
      const added = [...imports(next)].filter((file) => !loaded.has(file));
      known.set(next, sum(added));
      additions(new Set([...loaded, ...added]), added, known);
    }
  }
  return known;
}

// The library of menus, popovers and dialogs belongs to no page: it is loaded once, in idle time.
const popups = names.filter((name) => /^popups-.*\.js$/.test(name));

const later = additions(
  new Set([...initial, ...popups]),
  [...initial].filter((name) => name.endsWith(".js")),
);
const largest = [...later].sort((a, b) => b[1] - a[1])[0] ?? ["none", 0];

const checks = [
  ["first view, scripts", sum([...initial].filter((name) => name.endsWith(".js"))), BUDGET.firstScript],
  ["first view, styles", sum([...initial].filter((name) => name.endsWith(".css"))), BUDGET.firstStyle],
  ["menus, popovers and dialogs", sum(popups), BUDGET.popups],
  [`largest addition, ${largest[0]}`, largest[1], BUDGET.route],
  ["everything", sum(names), BUDGET.all],
];
let isOver = false;
for (const [what, bytes, limit] of checks) {
  const over = bytes > limit;
  isOver ||= over;
  console.log(`${over ? "OVER" : "ok  "} ${what}: ${(bytes / KB).toFixed(1)} of ${limit / KB} kB`);
}
process.exit(isOver ? 1 : 0);
