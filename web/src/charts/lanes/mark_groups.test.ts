import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { groupMarks, markLines } from "./mark_groups.ts";
import type { Mark } from "./types.ts";

/** An axis with a pixel for each second. */
const axis = { from: 0, to: 1000 };

const mark = (seconds: number, kind: Mark["kind"] = "error"): Mark => ({
  id: String(seconds),
  at: seconds,
  kind,
  title: "",
});

const grouped = (...at: number[]) =>
  groupMarks(
    at.map((seconds) => mark(seconds)),
    axis,
    1000,
  ).map(({ marks }) => marks.map((one) => one.at));

describe("marks", () => {
  it("show the worst of those that are joined", () => {
    const marks = [mark(100, "event"), mark(102, "death"), mark(101, "flag")];
    const [group] = groupMarks(marks, axis, 1000);
    expect(group?.marks.map(({ kind }) => kind)).toEqual(["death", "flag", "event"]);
  });

  it("join if their shapes would overlap, and leave out what is not shown", () => {
    expect(grouped(500, 100, 115, 2000)).toEqual([[100, 115], [500]]);
    expect(grouped(100, 116)).toEqual([[100], [116]]);
  });

  it("join if one between others would be too narrow for a finger", () => {
    expect(grouped(100, 116, 133)).toEqual([[100, 116], [133]]);
  });

  it("have targets that are wide enough, reach over the own shape only, and lose no mark", () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 1000, noNaN: true }), { maxLength: 150 }), (times) => {
        const groups = groupMarks(
          times.map((seconds) => mark(seconds)),
          axis,
          1000,
        );
        groups.forEach(({ share, from, to }, i) => {
          expect(to - from).toBeGreaterThan(23.999);
          expect(from).toBeLessThanOrEqual(share * 1000 - 7.999);
          expect(to).toBeGreaterThanOrEqual(share * 1000 + 7.999);
          expect(to).toBeLessThanOrEqual((groups[i + 1]?.from ?? 2000) + 0.001);
        });
        const kept = groups.flatMap(({ marks }) => marks.map(({ at }) => at));
        expect(kept.sort((a, b) => a - b)).toEqual([...times].sort((a, b) => a - b));
      }),
    );
  });

  it("have a line each, and one for those of the same pixel", () => {
    const lines = markLines([mark(10.2, "event"), mark(9.9), mark(11)], axis, 1000);
    expect([...lines].map(([pixel, { kind }]) => [pixel, kind])).toEqual([
      [10, "error"],
      [11, "error"],
    ]);
  });
});
