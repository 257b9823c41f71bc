import { describe, expect, it } from "vitest";
import { clusterFilter, fixedStart, rangeStart, shownFilters, shownStates } from "./filter.ts";
import { parseCost, parseDuration, parsePackage, parseTag } from "./filter_text.ts";
import { orderText, parseOrder } from "./order.ts";

const NOW = Date.parse("2026-11-26T16:47:31Z");
const USERS = [
  { id: "VXNlcjox", name: "ada" },
  { id: "VXNlcjoy", name: "okan" },
];

describe("the filter of an address", () => {
  it("is empty without conditions", () => {
    expect(clusterFilter({}, USERS, NOW)).toEqual({});
    expect(clusterFilter({ started: "all" }, USERS, NOW)).toEqual({});
  });
  it("has every condition under the server's names", () => {
    const search = {
      state: "RUNNING,IDLE",
      started: "7d",
      q: "features",
      user: "okan",
      tag: ["nightly", "team:risk"],
      flag: ["SPILLING", "NO_SUCH_KIND"],
      cost: "10 EUR",
      errors: "no",
      package: "dask==2026.*",
      idle: "30m",
      lasted: "1.5h",
    } as const;
    expect(clusterFilter({ ...search, tag: [...search.tag], flag: [...search.flag] }, USERS, NOW)).toEqual({
      states: ["RUNNING", "IDLE"],
      startedIn: { from: "2026-11-19T16:40:00.000Z" },
      search: "features",
      users: ["VXNlcjoy"],
      tags: { all: [{ key: "nightly" }, { key: "team", value: "risk" }] },
      flags: ["SPILLING"],
      minCost: { amount: 10, currency: "EUR" },
      hasErrors: false,
      package: { name: "dask", versionPrefix: "2026." },
      idleForSeconds: 1800,
      minDurationSeconds: 5400,
    });
  });
  it("has the same period later once it is fixed", () => {
    const fixed = fixedStart("24h", NOW);
    expect(fixed).toBe("2026-11-25T16:40:00Z/2026-11-26T16:47:31Z");
    expect(clusterFilter({ started: fixed }, USERS, NOW + 86_400_000)).toEqual({
      startedIn: { from: "2026-11-25T16:40:00.000Z", to: "2026-11-26T16:47:31.000Z" },
    });
    expect(fixedStart(fixed, NOW + 86_400_000)).toBe(fixed);
    expect(fixedStart(undefined, NOW)).toBeUndefined();
    expect(shownFilters({ started: fixed })[0]?.value).toBe(
      "Wed 25 Nov, 16:40:00 – Thu 26 Nov, 16:47:31 UTC",
    );
    expect(shownFilters({ started: "2026-11-18/2026-11-18" })[0]?.value).toBe(
      "Wed 18 Nov, 00:00:00 – 23:59:59 UTC",
    );
  });
  it("leaves out what cannot be read, and users that nobody knows", () => {
    expect(clusterFilter({ cost: "much", idle: "soon", user: "nobody" }, USERS, NOW)).toEqual({});
  });
  it("starts ranges at full ten minutes, so that the same page has the same variables", () => {
    expect(rangeStart("24h", NOW)).toBe("2026-11-25T16:40:00.000Z");
    expect(rangeStart("24h", NOW + 60_000)).toBe("2026-11-25T16:40:00.000Z");
    expect(rangeStart(undefined, NOW)).toBeNull();
  });
});

describe("the texts of filters", () => {
  it("reads packages, tags, amounts and durations", () => {
    expect(parsePackage("numpy")).toEqual({ name: "numpy" });
    expect(parsePackage("numpy == 2.1.0")).toEqual({ name: "numpy", version: "2.1.0" });
    expect(parsePackage("==2")).toBeNull();
    expect(parseTag("nightly")).toEqual({ key: "nightly" });
    expect(parseTag("url:http://x")).toEqual({ key: "url", value: "http://x" });
    expect(parseCost("2.50")).toEqual({ amount: 2.5 });
    expect(parseCost("2 eur")).toBeNull();
    expect(parseDuration("90s")).toBe(90);
    expect(parseDuration("1d")).toBe(86_400);
    expect(parseDuration("90")).toBeNull();
  });
});

describe("the chips", () => {
  it("take one condition out of the address each", () => {
    const search = { state: "LOST", q: "era5", tag: ["a", "b"], sort: "-cost" };
    expect(shownFilters(search).map(({ name, value }) => `${name} ${value}`)).toEqual([
      "Name contains era5",
      "Tag a",
      "Tag b",
    ]);
    expect(shownFilters(search)[0]?.without).toEqual({ state: "LOST", tag: ["a", "b"], sort: "-cost" });
    expect(shownFilters(search)[1]?.without).toEqual({ state: "LOST", q: "era5", tag: ["b"], sort: "-cost" });
    expect(shownStates(search)).toEqual([
      { id: "state", name: "State", value: "Lost", without: { q: "era5", tag: ["a", "b"], sort: "-cost" } },
    ]);
  });
});

describe("the order of an address", () => {
  it("is the newest first unless the address names one that the server has", () => {
    expect(parseOrder(undefined)).toEqual({ by: "started", direction: "desc" });
    expect(parseOrder("-cost")).toEqual({ by: "cost", direction: "desc" });
    expect(parseOrder("errors")).toEqual({ by: "errors", direction: "asc" });
    expect(parseOrder("-constructor")).toEqual({ by: "started", direction: "desc" });
  });
  it("is written unless it is the default", () => {
    expect(orderText({ by: "started", direction: "desc" })).toBeUndefined();
    expect(orderText({ by: "started", direction: "asc" })).toBe("started");
    expect(orderText({ by: "cost", direction: "desc" })).toBe("-cost");
  });
});
