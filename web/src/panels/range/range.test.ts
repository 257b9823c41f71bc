import { describe, expect, it } from "vitest";
import { dayRange, daysBetween, daysOf, fixedRange, rangeName } from "./range.ts";

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

  it("is the same later once it is fixed", () => {
    const later = now + 40 * 86_400_000;
    for (const range of ["7d", "28d", "all"] as const) {
      const days = daysOf(range, now);
      const { words, ...fixed } = daysOf(fixedRange(days), later);
      expect(fixed).toEqual({ from: days.from, to: days.to, before: days.before, count: days.count });
      expect(words).toBe(range === "all" ? "all days until Tue 24 Nov" : days.words);
    }
    expect(fixedRange(daysOf("7d", now))).toBe("2026-11-18/2026-11-24");
    expect(fixedRange(daysOf("all", now))).toBe("../2026-11-24");
    expect(rangeName("../2026-11-24")).toBe("Until Tue 24 Nov");
    expect(rangeName("2026-11-18/2026-11-24")).toBe("Wed 18 Nov – Tue 24 Nov");
    expect(rangeName("7d")).toBe("Last 7 days");
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
    expect(dayRange("2026-11-18/2026-11-24")).toBe("2026-11-18/2026-11-24");
  });
});
