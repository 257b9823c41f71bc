import { describe, expect, it } from "vitest";
import { factorOf, zoomed } from "./use_wheel_zoom.ts";

const extent = { from: 0, to: 1000 };

describe("the zoom by the wheel", () => {
  it("keeps the time under the pointer where it is, and gets deeper each time", () => {
    const once = zoomed(extent, extent, 250, 0.5);
    expect(once).toEqual({ from: 125, to: 625 });
    expect(zoomed(once, extent, 250, 0.5)).toEqual({ from: 187.5, to: 437.5 });
  });
  it("ends at the extent and at the distance of measurements", () => {
    expect(zoomed({ from: 100, to: 900 }, extent, 800, 1.5)).toEqual({ from: 0, to: 950 });
    expect(zoomed({ from: 100, to: 900 }, extent, 500, 9)).toEqual(extent);
    expect(zoomed({ from: 100, to: 103 }, extent, 100, 0.1)).toEqual({ from: 100, to: 102 });
    expect(zoomed({ from: 100, to: 101 }, extent, 100, 0.1)).toEqual({ from: 100, to: 101 });
  });
  it("turns by notches, whatever the unit of the mouse", () => {
    expect(factorOf({ deltaY: 100, deltaMode: 0 })).toBe(1.5);
    expect(factorOf({ deltaY: -480, deltaMode: 0 })).toBeCloseTo(1 / 1.5, 9);
    expect(factorOf({ deltaY: 10, deltaMode: 0 })).toBeCloseTo(1.5 ** 0.1, 9);
    expect(factorOf({ deltaY: -3, deltaMode: 1 })).toBeCloseTo(1.5 ** -0.99, 9);
  });
});
