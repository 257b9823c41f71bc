import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type FlameTree, fitted, flameNodeAt, layoutFlame } from "./layout.ts";

const tree: FlameTree = {
  parents: Int32Array.from([-1, 0, 1, 0, -1]),
  totals: Float64Array.from([80, 50, 20, 20, 20]),
  names: ["main", "load", "read", "save", "other"],
};

describe("the layout of a flame graph", () => {
  it("places children beside one another below their parent", () => {
    const layout = layoutFlame(tree);
    expect([...layout.depths]).toEqual([0, 1, 2, 1, 0]);
    expect([...layout.lefts]).toEqual([0, 0, 0, 0.5, 0.8]);
    expect([...layout.widths]).toEqual([0.8, 0.5, 0.2, 0.2, 0.2]);
    expect([...layout.selves]).toEqual([10, 30, 20, 20, 20]);
    expect(layout.depth).toBe(3);
  });
  it("shows one node over the whole width", () => {
    const layout = layoutFlame(tree, 1);
    expect([...layout.widths]).toEqual([0, 1, 0.4, 0, 0]);
    expect(flameNodeAt(layout, 0.3, 1)).toBe(2);
    expect(flameNodeAt(layout, 0.5, 1)).toBe(-1);
  });
  it("never lets children reach beyond their parent", () => {
    const shape = fc.array(fc.tuple(fc.nat(), fc.double({ min: 0.01, max: 1, noNaN: true })), {
      minLength: 1,
    });
    fc.assert(
      fc.property(shape, (nodes) => {
        const parents = Int32Array.from(nodes.map(([seed], i) => (i === 0 ? -1 : seed % i)));
        const totals = new Float64Array(nodes.length);
        const left = new Float64Array(nodes.length);
        nodes.forEach(([, part], i) => {
          const parent = parents[i] ?? -1;
          totals[i] = parent < 0 ? 1000 : (left[parent] ?? 0) * part * 0.9;
          if (parent >= 0) left[parent] = (left[parent] ?? 0) - (totals[i] ?? 0);
          left[i] = totals[i] ?? 0;
        });
        const layout = layoutFlame({ parents, totals, names: [] });
        parents.forEach((parent, i) => {
          if (parent < 0) return;
          const end = (layout.lefts[i] ?? 0) + (layout.widths[i] ?? 0);
          expect(end).toBeLessThanOrEqual((layout.lefts[parent] ?? 0) + (layout.widths[parent] ?? 0) + 1e-9);
        });
      }),
    );
  });
});

describe("a name in a flame graph", () => {
  // Each letter is ten pixels wide.
  const shown = (text: string, room: number) => fitted(text, room, ({ length }) => length * 10);
  it("has its share where there is room, and is shortened with an ellipsis", () => {
    const text = "read_part 22.9\u00a0%";
    expect(shown(text, 160)).toBe(text);
    expect(shown(text, 159)).toBe("read_part");
    expect(shown(text, 90)).toBe("read_part");
    expect(shown(text, 89)).toBe("read_pa…");
    expect(shown("clean <\u00a00.1\u00a0%", 60)).toBe("clean");
    expect(shown(text, 5)).toBe("r…");
  });
});
