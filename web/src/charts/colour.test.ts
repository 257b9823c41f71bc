import { describe, expect, it } from "vitest";
import { activityOf, fnv1a, functionTokens } from "./colour.ts";

describe("colours", () => {
  // The test vectors of the FNV specification.
  it.each([
    ["", 0x811c9dc5],
    ["a", 0xe40c292c],
    ["foobar", 0xbf9cf968],
  ])("hashes %j by FNV-1a", (text, hash) => expect(fnv1a(text)).toBe(hash));

  it("gives each of seven functions its own colour, and the larger one its hash's", () => {
    const prefixes = ["a", "b", "c", "d", "e", "f", "g", "h"];
    const tokens = functionTokens(prefixes);
    expect(new Set(tokens.values()).size).toBe(7);
    expect(tokens.get("a")).toBe(`--fn-${(0xe40c292c % 7) + 1}`);
    expect(tokens.has("h")).toBe(false);
  });

  it("maps what Dask measures to activities", () => {
    expect(activityOf("thread-noncpu")).toBe("WAITING");
    expect(activityOf("disk-write")).toBe("SPILL");
    expect(activityOf("something-of-a-plugin")).toBe("OVERHEAD");
  });
});
