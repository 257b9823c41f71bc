import { describe, expect, it } from "vitest";
import { extentOf, stepsOf } from "./steps.ts";

describe("a waterfall", () => {
  it("begins each bar where the one before it ended", () => {
    const steps = stepsOf([8, -3, 2]);
    expect(steps).toEqual([
      { from: 0, to: 8 },
      { from: 8, to: 5 },
      { from: 5, to: 7 },
    ]);
    expect(extentOf(steps)).toEqual({ low: 0, high: 8 });
  });
  it("has room for less than nothing, and for nothing", () => {
    expect(extentOf(stepsOf([2, -6]))).toEqual({ low: -4, high: 2 });
    expect(extentOf(stepsOf([-1]))).toEqual({ low: -1, high: 0 });
    expect(extentOf(stepsOf([]))).toEqual({ low: 0, high: 1 });
  });
});
