import { describe, expect, it } from "vitest";
import { dayRange, daysBetween, daysOf } from "./range.ts";

const now = Date.parse("2026-11-24T14:21:00Z");

describe("days of a range", () => {
  it("ends with today and has as many days before it to compare with", () => {
    expect(daysOf("28d", now)).toEqual({
      from: "2026-10-28",
      to: "2026-11-25",
      before: "2026-09-30",
      count: 28,
      words: "28 days",
    });
  });

  it("has no start for all days", () => {
    expect(daysOf("all", now)).toMatchObject({ from: null, to: "2026-11-25", before: null });
  });

  it("lists every day once, over the end of February", () => {
    expect(daysBetween("2028-02-27", "2028-03-02")).toEqual([
      "2028-02-27",
      "2028-02-28",
      "2028-02-29",
      "2028-03-01",
    ]);
  });

  it("takes the default for a range that is no whole day", () => {
    expect(dayRange("24h")).toBe("28d");
    expect(dayRange("90d")).toBe("90d");
  });
});
