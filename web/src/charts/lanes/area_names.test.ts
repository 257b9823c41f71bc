import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { areaNames, NAME_PIXELS } from "./area_names.ts";
import type { Layer, PlotLane } from "./types.ts";

const HEIGHT = 100;

function lane(columns: readonly (readonly (number | null)[])[], times?: number[]): PlotLane {
  const layers = columns.map(
    (values, i): Layer => ({
      id: String(i),
      label: `f${i}`,
      colour: "--fn-1",
      values,
      draw: "area",
      isNamed: true,
    }),
  );
  const length = columns[0]?.length ?? 0;
  return {
    kind: "plot",
    id: "lane",
    title: "",
    height: HEIGHT,
    times: times ?? Array.from({ length }, (_, i) => i * 10),
    stepSeconds: 10,
    layers,
    main: "0",
    max: 10,
    format: String,
  };
}

const shown = { from: 0, to: 100 };
const wide = () => 40;

describe("the names on areas", () => {
  it("stand in the middle of the highest part of their area", () => {
    expect(areaNames(lane([[2, 2, 8, 8, 8, 8, 8, 2, 2, 2]]), shown, 200, wide)).toEqual([
      { id: "0", label: "f0", x: 100, y: 60 },
    ]);
  });

  it("are left out where an area is too low, too narrow or interrupted", () => {
    expect(areaNames(lane([[1.9, 1.9, 1.9]]), shown, 200, wide)).toEqual([]);
    expect(areaNames(lane([[0, 9, 0, 9, 0]]), shown, 200, wide)).toEqual([]);
    expect(areaNames(lane([[9, null, 9]]), shown, 200, wide)).toEqual([]);
    expect(areaNames(lane([[9, 9]], [0, 50]), shown, 200, wide)).toEqual([]);
    expect(areaNames(lane([[0, 9, 0]]), shown, 400, wide).map(({ x }) => x)).toEqual([60]);
  });

  it("are only those of the shown part", () => {
    expect(areaNames(lane([[9, 9, 9, 9]]), { from: 50, to: 100 }, 200, wide)).toEqual([]);
  });

  it("lie within their areas, whatever these are", () => {
    const value = fc.double({ min: 0, max: 3.3, noNaN: true });
    const column = fc.array(value, { minLength: 10, maxLength: 10 });
    fc.assert(
      fc.property(fc.array(column, { minLength: 1, maxLength: 3 }), (columns) => {
        for (const { id, x, y } of areaNames(lane(columns), shown, 300, wide)) {
          const own = Number(id);
          for (let i = 0; i < 10; i++) {
            if ((i + 1) * 30 <= x - 20 || i * 30 >= x + 20) continue;
            const below = columns.slice(0, own).reduce((sum, values) => sum + (values[i] ?? 0), 0);
            const above = below + (columns[own]?.[i] ?? 0);
            expect(y + NAME_PIXELS / 2).toBeLessThanOrEqual(HEIGHT - below * 10 + 0.1);
            expect(y - NAME_PIXELS / 2).toBeGreaterThanOrEqual(HEIGHT - above * 10 - 0.1);
          }
        }
      }),
    );
  });
});
