import { describe, expect, it } from "vitest";
import { daysOf } from "@/panels/range/range.ts";
import { groupFilter, isNew, newFirst, nextStatuses, trendOf } from "./filter.ts";

const now = Date.parse("2026-11-24T14:21:00Z");

describe("filter of groups", () => {
  it("takes the days of the range and known origins only", () => {
    const days = daysOf("7d", now);
    expect(groupFilter({ origin: "USER", type: ["OSError"] }, days)).toEqual({
      origin: "USER",
      types: ["OSError"],
      in: { from: "2026-11-18T00:00:00Z", to: "2026-11-25T00:00:00Z" },
    });
    expect(groupFilter({ origin: "MARS" }, days).origin).toBeNull();
    expect(trendOf(days)).toEqual({
      trendFrom: "2026-11-18T00:00:00Z",
      trendTo: "2026-11-25T00:00:00Z",
      bucket: "DAY",
    });
    expect(trendOf(daysOf("all", now))).toEqual({
      trendFrom: null,
      trendTo: "2026-11-25T00:00:00Z",
      bucket: "WEEK",
    });
  });

  it("puts what began within a day first", () => {
    const old = { id: 1, status: "OPEN", firstSeenAt: "2026-11-23T14:20:59Z" } as const;
    const fresh = { id: 2, status: "OPEN", firstSeenAt: "2026-11-23T14:21:01Z" } as const;
    expect([isNew(old, now), isNew(fresh, now)]).toEqual([false, true]);
    expect(isNew({ ...fresh, status: "RESOLVED" }, now)).toBe(false);
    expect(newFirst([old, fresh], now).map(({ id }) => id)).toEqual([2, 1]);
  });

  it("offers the changes that make sense", () => {
    expect(nextStatuses("REGRESSED")).toEqual(["RESOLVED", "IGNORED"]);
    expect(nextStatuses("IGNORED")).toEqual(["OPEN"]);
  });
});
