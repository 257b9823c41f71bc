import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { barLabels } from "./bar_labels.ts";

const part = (id: string, value: number, width = 60) => ({ id, value, width });

describe("the labels of a bar", () => {
  it("stand above wide parts, and below narrow ones in their middle", () => {
    // Two pixels are between the parts.
    const labels = barLabels([part("cpu", 60), part("spill", 10), part("idle", 30)], 502);
    expect(labels).toEqual([
      { id: "cpu", side: "above", left: 0, width: 60, middle: 150 },
      { id: "spill", side: "below", left: 296, width: 60, middle: 326 },
      { id: "idle", side: "above", left: 352, width: 60, middle: 427 },
    ]);
  });

  it("stand at parts behind some that are only as wide as a pixel", () => {
    const tiny = ["a", "b", "c", "d"].map((id) => part(id, 0.001, 20));
    // Four pixels are the parts, and five are between them and the last two.
    const labels = barLabels([...tiny, part("cpu", 50), part("idle", 50)], 409);
    const [cpu, idle] = labels?.filter(({ side }) => side === "above") ?? [];
    expect([cpu?.left, cpu?.middle, idle?.left, idle?.middle]).toEqual([8, 108, 209, 309]);
  });

  it("stand below a part that is narrower than its label", () => {
    expect(barLabels([part("a", 50, 260), part("b", 50)], 500)?.map(({ side }) => side)).toEqual([
      "below",
      "above",
    ]);
  });

  it("do not fit if those below are wider than the bar", () => {
    const narrow = Array.from({ length: 5 }, (_, i) => part(String(i), 1));
    expect(barLabels([part("cpu", 95), ...narrow], 300)).toBeNull();
    expect(barLabels([part("cpu", 95), ...narrow], 400)).not.toBeNull();
  });

  it("lie within the bar, and not on one another", () => {
    const value = fc.double({ min: 0.001, max: 100, noNaN: true });
    fc.assert(
      fc.property(fc.array(fc.tuple(value, fc.integer({ min: 20, max: 120 })), { minLength: 1 }), (given) => {
        const labels = barLabels(
          given.map(([size, width], i) => part(String(i), size, width)),
          800,
        );
        for (const side of ["above", "below"]) {
          let end = 0;
          for (const label of labels?.filter((one) => one.side === side) ?? []) {
            expect(label.left).toBeGreaterThan(end - 0.001);
            end = label.left + label.width;
          }
          expect(end).toBeLessThan(800.001);
        }
      }),
    );
  });
});
