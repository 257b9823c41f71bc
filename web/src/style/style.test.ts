import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const source = new URL("../", import.meta.url).pathname;

const files = readdirSync(source, { recursive: true, encoding: "utf8" }).filter(
  (name) => /\.(css|tsx)$/.test(name) && name !== "style/tokens.css",
);

// `rgb(from var(--token) …)` takes its colour from a token.
const RAW_COLOUR = /#[0-9a-f]{3,8}\b(?![^"']*["'] *\))|\b(rgba?|hsla?|oklch)\((?!from var)/i;

/** The properties that Base UI sets on what it positions. */
const OF_BASE_UI = ["--available-width", "--available-height"];

describe("styles", () => {
  it("take every colour from the tokens", () => {
    expect(files.length).toBeGreaterThan(30);
    const raw = files.flatMap((name) =>
      readFileSync(source + name, "utf8")
        .split("\n")
        .filter((line) => RAW_COLOUR.test(line) && !/\/\^#/.test(line) && !/`#|>#|"#|#content/.test(line))
        .map((line) => `${name}: ${line.trim()}`),
    );
    expect(raw).toEqual([]);
  });

  it("name only tokens that exist", () => {
    const tokens = new Set(readFileSync(`${source}style/tokens.css`, "utf8").match(/--[a-z0-9-]+(?=:)/g));
    const own = new Set<string>(OF_BASE_UI);
    const used = files.flatMap((name) => {
      const text = readFileSync(source + name, "utf8");
      for (const [definition] of text.matchAll(/--[a-z0-9-]+(?=:)/g)) own.add(definition);
      return [...text.matchAll(/var\((--[a-z0-9-]+)\)/g)].map(([, token]) => `${token} in ${name}`);
    });
    const unknown = used.filter((entry) => {
      const [token = ""] = entry.split(" ");
      return !tokens.has(token) && !own.has(token);
    });
    expect(unknown).toEqual([]);
  });
});
