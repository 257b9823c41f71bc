import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { bucketAt, gaps, stacked, tableTimes, withGaps, withSteps } from "./prepare.ts";
import { position, roundMax, roundMaxBytes, timeAt, timeTicks } from "./scale.ts";
import type { PlotLane } from "./types.ts";
import { stepSeconds } from "./use_playback.ts";

const at = (text: string) => Date.parse(text) / 1000;

describe("the time axis", () => {
  it("has round times", () => {
    const range = { from: at("2026-11-24T02:00:14Z"), to: at("2026-11-24T02:47:50Z") };
    expect(timeTicks(range, 10).map((tick) => new Date(tick * 1000).toISOString().slice(11, 16))).toEqual([
      "02:05",
      "02:10",
      "02:15",
      "02:20",
      "02:25",
      "02:30",
      "02:35",
      "02:40",
      "02:45",
    ]);
  });
  it("never has more ticks than there is room for", () => {
    const range = fc.tuple(fc.integer({ min: 0, max: 2e9 }), fc.integer({ min: 1, max: 1e8 }));
    fc.assert(
      fc.property(range, fc.integer({ min: 2, max: 20 }), ([from, width], most) => {
        expect(timeTicks({ from, to: from + width }, most).length).toBeLessThanOrEqual(most + 1);
      }),
    );
  });
  it("maps times to positions and back", () => {
    expect(position(150, { from: 100, to: 200 })).toBe(0.5);
    expect(timeAt(0.25, { from: 100, to: 200 })).toBe(125);
  });
});

describe("the value axis", () => {
  it.each([
    [0, 1],
    [96, 100],
    [0.27, 0.3],
    [13, 16],
    [4.0000000001, 4],
  ])("ends above %d at %d", (value, max) => expect(roundMax(value)).toBeCloseTo(max, 9));
  it("is round in the unit of bytes", () => {
    expect(roundMaxBytes(350 * 1024 ** 3)).toBe(400 * 1024 ** 3);
    expect(roundMaxBytes(1010 * 1024 ** 2)).toBe(1024 * 1024 ** 2);
  });
  it("is never below the values", () => {
    fc.assert(
      fc.property(fc.double({ min: 1e-9, max: 1e15, noNaN: true }), (value) => {
        expect(roundMax(value)).toBeGreaterThanOrEqual(value * (1 - 1e-8));
        expect(roundMaxBytes(Math.max(1, value))).toBeGreaterThanOrEqual(Math.max(1, value) * (1 - 1e-8));
      }),
    );
  });
});

describe("series", () => {
  it("stack, and stay empty where nothing was reported", () => {
    expect(
      stacked([
        [1, 2, null, null],
        [10, null, 30, null],
      ]),
    ).toEqual([
      [1, 2, null, null],
      [11, 2, 30, null],
    ]);
  });
  it("have a gap where buckets are missing", () => {
    expect(withGaps([0, 10, 50, 60], [[1, 2, 5, 6]], 10)).toEqual({
      times: [0, 10, 20, 50, 60],
      values: [[1, 2, null, 5, 6]],
    });
    const lane = { times: [0, 10, 50, 60], stepSeconds: 10 } as unknown as PlotLane;
    expect(gaps(lane, { from: 0, to: 80 })).toEqual([{ from: 0.25, to: 0.625 }]);
    expect(gaps(lane, { from: 0, to: 100 })).toEqual([
      { from: 0.2, to: 0.5 },
      { from: 0.7, to: 1 },
    ]);
  });
  it("have a value until the next bucket, unless there is a gap before it", () => {
    const times = [0, 10, 50, 75];
    const found = [-1, 0, 9.9, 14, 19.9, 20, 49, 50, 74, 75, 85].map((time) => bucketAt(times, 10, time));
    expect(found).toEqual([null, 0, 0, 1, 1, null, null, 2, 2, 3, null]);
  });
  it("have a value over their whole bucket if they are drawn as steps", () => {
    const { times, values } = withSteps({ times: [0, 10, 20], values: [[4, null, 1]] }, 10);
    expect(times.map((time) => Number(time.toFixed(2)))).toEqual([0, 9.99, 10, 19.99, 20, 29.99]);
    expect(values).toEqual([[4, 4, null, null, 1, 1]]);
  });
  it("have no gap where a report was a little late", () => {
    expect(withGaps([0, 10, 35], [[1, 2, 3]], 10).times).toEqual([0, 10, 35]);
  });
});

describe("the table", () => {
  const lane = (stepSeconds: number, times: number[]) => ({ stepSeconds, times }) as unknown as PlotLane;
  it("has a row for each bucket of the narrowest width, and wider ones where there is none of these", () => {
    const lanes = [lane(15, [0, 15, 30, 45, 60]), lane(10, [0, 10, 20, 30]), lane(10, [10])];
    expect(tableTimes(lanes, { from: 0, to: 100 })).toEqual([0, 10, 20, 30, 45, 60]);
  });
  it("has the bucket in which the shown time begins", () => {
    expect(tableTimes([lane(15, [0, 15, 30, 45])], { from: 20, to: 40 })).toEqual([15, 30]);
  });
});

describe("the playback", () => {
  it("shows a minute in a second, ten times in each", () => {
    expect(stepSeconds({ from: 100, to: 3700 })).toBe(6);
    expect(stepSeconds({ from: 0, to: 86_400 })).toBe(6);
  });
  it("takes ten seconds at least", () => {
    expect(stepSeconds({ from: 0, to: 40 })).toBeCloseTo(0.4, 9);
  });
});
