import { describe, expect, it } from "vitest";
import { heatCuts, heatStep } from "./steps.ts";

describe("the steps of a heat map", () => {
  it("keep 0 apart from little", () => {
    const cuts = [0.5, 25, 75, 150, 250, 400, 550];
    expect([0, 0.1, 0.5, 24.9, 25, 182, 550, 9999].map((value) => heatStep(value, cuts))).toEqual([
      0, 1, 1, 1, 2, 4, 7, 7,
    ]);
  });
  it("lie at rounded quantiles", () => {
    expect(heatCuts([10, 20, 30, 40, 50, 60, 70])).toEqual([10, 20, 30, 40, 50, 60]);
    expect(heatCuts([0, 0])).toEqual([]);
    expect(heatCuts([3.7])).toEqual([3]);
  });
});
