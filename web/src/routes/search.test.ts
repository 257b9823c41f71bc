import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  choiceParam,
  choicesParam,
  intervalLimits,
  intervalParam,
  listParam,
  parseSearch,
  stringifySearch,
  textParam,
  timeParam,
} from "./search.ts";
import { clusterSearch, compareSearch, errorsSearch } from "./search_types.ts";

describe("the search part of an address", () => {
  it("keeps text that looks like a number, a truth value or JSON", () => {
    expect(parseSearch("?name=662E41&a=true&b=007&c=%7B%7D&d=null")).toEqual({
      name: "662E41",
      a: "true",
      b: "007",
      c: "{}",
      d: "null",
    });
  });
  it("collects repeated names", () => {
    expect(parseSearch("?tag=team:risk&tag=nightly&user=ada")).toEqual({
      tag: ["team:risk", "nightly"],
      user: "ada",
    });
  });
  it("writes readable addresses", () => {
    expect(
      stringifySearch({ from: "-24h", tag: ["team:risk"], state: "RUNNING,IDLE", user: undefined }),
    ).toBe("?from=-24h&tag=team:risk&state=RUNNING,IDLE");
    expect(stringifySearch({})).toBe("");
  });
  it("reads back whatever it writes", () => {
    const text = fc.string({ minLength: 1, unit: "grapheme" });
    const search = fc.dictionary(text, fc.oneof(text, fc.array(text, { minLength: 2, maxLength: 4 })));
    fc.assert(
      fc.property(search, (written) => {
        expect(parseSearch(stringifySearch(written))).toEqual({ ...written });
      }),
    );
  });
  it("drops what a page does not understand", () => {
    expect(choiceParam("nonsense", ["time", "cost"])).toBeUndefined();
    expect(choiceParam("cost", ["time", "cost"])).toBe("cost");
    expect(choicesParam("RUNNING,NONE,IDLE", ["IDLE", "RUNNING"])).toEqual(["IDLE", "RUNNING"]);
    expect(choicesParam("NONE", ["IDLE"])).toBeUndefined();
    expect(listParam(["a", "", "b"])).toEqual(["a", "b"]);
    expect(listParam("")).toBeUndefined();
    expect(textParam(["a", "b"])).toBe("b");
    expect(timeParam("2026-11-24T02:00:00Z")).toBe(1_795_485_600_000);
    expect(timeParam("2026-11-24T02:00:00+00:00")).toBe(1_795_485_600_000);
    expect(timeParam("2026-11-24T02:00:00 00:00")).toBe(1_795_485_600_000);
    expect(timeParam("yesterday")).toBeUndefined();
    expect(timeParam("24 Nov 2026")).toBeUndefined();
    expect(compareSearch({ a: "4107", b: "4121x", by: "function", c: "1" })).toEqual({
      a: "4107",
      by: "function",
    });
  });
  it("reads periods with their last day, and refuses those that end before they begin", () => {
    const day = 86_400_000;
    const first = Date.parse("2026-11-18");
    expect(intervalLimits("2026-11-18/2026-11-24")).toEqual({ from: first, to: first + 7 * day });
    expect(intervalLimits("2026-11-18/2026-11-18")).toEqual({ from: first, to: first + day });
    expect(intervalLimits("../2026-11-17")).toEqual({ from: null, to: first });
    expect(intervalLimits("2026-11-18T00:00:00Z/2026-11-18T00:00:01Z")).toEqual({
      from: first,
      to: first + 1000,
    });
    for (const wrong of ["2026-11-18/2026-11-16", "2026-11-18", "7d", "a/b", "2026-11-18/2026-11-19/"]) {
      expect(intervalParam(wrong), wrong).toBeUndefined();
    }
    expect(errorsSearch({ range: "../2026-11-17" })).toEqual({ range: "../2026-11-17" });
    expect(errorsSearch({ range: "28d" })).toEqual({ range: "28d" });
    expect(errorsSearch({ range: "28" })).toEqual({});
  });
  it("keeps the zoom of the time line only with the part that it shows", () => {
    const part = { from: "2026-11-24T02:00:00.000Z", to: "2026-11-24T02:05:00.000Z" };
    expect(clusterSearch({ ...part, zoom: "yes", timeline: "table" })).toEqual({
      ...part,
      zoom: "yes",
      timeline: "table",
    });
    expect(clusterSearch({ zoom: "yes", timeline: "chart" })).toEqual({});
  });
});
