import { describe, expect, it } from "vitest";
import { layoutFlame } from "@/charts/flame/layout.ts";
import {
  calls,
  find,
  functionsOf,
  keyOfNode,
  nodeOfKey,
  originOf,
  type ProfileColumns,
  pathTo,
  percent,
} from "./calls.ts";
import { noProfileReason } from "./no_profile_reason.ts";

const plain = (text: string) => text.replaceAll("\u00a0", " ");

const line = (file: string, name: string, number: number) => ({
  file,
  function: name,
  line: number,
  text: null,
});

const PANDAS = "/opt/lib/python3.11/site-packages/pandas/core/window.py";

// 200 samples. `walk` calls itself, and two samples were in lines that are left out.
const profile: ProfileColumns = {
  samples: 200,
  frames: [
    line("/home/ada/features.py", "walk", 5),
    line("/home/ada/features.py", "walk", 9),
    line(PANDAS, "apply", 40),
    line("/home/ada/load.py", "read", 2),
  ],
  columns: {
    parents: [null, 0, 1, 0, null],
    frames: [0, 1, 2, 2, 3],
    self: [20, 8, 60, 30, 80],
    totals: [118, 68, 60, 30, 81],
  },
};

describe("the calls of a profile", () => {
  const tree = calls(profile);

  it("takes the columns as they are", () => {
    expect([...tree.parents]).toEqual([-1, 0, 1, 0, -1]);
    expect(tree.names.map(plain)).toEqual([
      "walk 59.0 %",
      "walk 34.0 %",
      "apply 30.0 %",
      "apply 15.0 %",
      "read 40.5 %",
    ]);
    expect(tree.drawnSamples).toBe(198);
  });

  it("counts a function that calls itself once", () => {
    const functions = functionsOf(tree);
    expect(functions.map(({ name, origin, self, total }) => [name, origin, self, total])).toEqual([
      ["apply", "lib", 90, 90],
      ["read", "own", 80, 81],
      ["walk", "own", 28, 118],
    ]);
    expect(functions.reduce((sum, { self }) => sum + self, 0)).toBe(tree.drawnSamples);
  });

  it("finds functions and files, and counts the samples below them once", () => {
    expect(find(tree, "  ")).toBeNull();
    expect(find(tree, "WALK")).toEqual({ lines: Uint8Array.of(1, 1, 0, 0), functions: 1, samples: 118 });
    expect(find(tree, "pandas")).toEqual({ lines: Uint8Array.of(0, 0, 1, 0), functions: 1, samples: 90 });
    expect(find(tree, ".py")?.samples).toBe(199);
    expect(find(tree, "nothing")).toEqual({ lines: new Uint8Array(4), functions: 0, samples: 0 });
  });

  it("names a node by its path of calls, wherever it stands", () => {
    expect(new Set(tree.keys).size).toBe(5);
    const swapped = calls({
      ...profile,
      columns: {
        parents: [null, null, 1, 2],
        frames: [3, 0, 1, 2],
        self: [0, 0, 0, 0],
        totals: [1, 1, 1, 1],
      },
    });
    for (const [node, other] of [
      [0, 1],
      [1, 2],
      [2, 3],
      [4, 0],
    ] as const)
      expect(nodeOfKey(swapped, keyOfNode(tree, node))).toBe(other);
    expect(nodeOfKey(tree, undefined)).toBe(-1);
    expect(nodeOfKey(tree, "nonsense")).toBe(-1);
    expect(keyOfNode(tree, -1)).toBeUndefined();
    expect(pathTo(tree, 2)).toEqual([0, 1, 2]);
  });

  it("tells whose code a file is", () => {
    expect(originOf("/home/ada/features.py")).toBe("own");
    expect(originOf(PANDAS)).toBe("lib");
    expect(originOf("/opt/lib/python3.11/site-packages/distributed/worker.py")).toBe("dask");
    expect(originOf("C:\\env\\Lib\\site-packages\\dask\\core.py")).toBe("dask");
    expect(originOf("/usr/lib/python3.11/threading.py")).toBe("std");
    expect(originOf("<string>")).toBe("std");
  });

  it("writes shares with one decimal, and none as 0 or as the whole", () => {
    expect(plain(percent(247, 1000))).toBe("24.7 %");
    expect(plain(percent(1, 1_000_000))).toBe("< 0.1 %");
    expect(plain(percent(999_999, 1_000_000))).toBe("> 99.9 %");
    expect(plain(percent(5, 5))).toBe("100.0 %");
    expect(plain(percent(0, 0))).toBe("0.0 %");
  });

  it("lays out 50,000 nodes, each with its width", () => {
    // 50 roots, each with 999 calls in 37 chains of 27.
    const parents: (number | null)[] = [];
    const totals: number[] = [];
    for (let root = 0; root < 50; root++) {
      const top = parents.length;
      parents.push(null);
      totals.push(37);
      for (let i = 0; i < 999; i++) {
        parents.push(i % 27 === 0 ? top : parents.length - 1);
        totals.push(1);
      }
    }
    const self = parents.map(() => 0);
    const frames = parents.map((_, i) => i % 4);
    const large = calls({ ...profile, samples: 1850, columns: { parents, frames, self, totals } });
    const layout = layoutFlame(large);
    expect(layout.widths.length).toBe(50_000);
    expect(layout.depth).toBe(28);
    expect(layout.whole).toBe(1850);
    const atDepth = new Float64Array(layout.depth);
    let wrong = 0;
    layout.widths.forEach((width, i) => {
      const depth = layout.depths[i] ?? 0;
      atDepth[depth] = (atDepth[depth] ?? 0) + width;
      if (width !== (depth === 0 ? 0.02 : 1 / 1850)) wrong += 1;
    });
    expect(wrong).toBe(0);
    for (const width of atDepth) expect(width).toBeCloseTo(1, 9);
  });
});

describe("the reason why there is no profile", () => {
  const receipt = { sent: 12, withheld: 0, dropped: 0, accepted: true };
  it.each([
    ["unreported", undefined, false],
    ["unreported", { sent: null, withheld: null, dropped: null, accepted: true }, false],
    ["refused", { sent: null, withheld: null, dropped: null, accepted: false }, false],
    ["refused", { ...receipt, sent: 3, dropped: 3, accepted: false }, true],
    ["dropped", { ...receipt, sent: 3, dropped: 3 }, false],
    ["withheld", { ...receipt, sent: 0, withheld: 2 }, false],
    ["off", { ...receipt, sent: 0 }, true],
    ["other-part", receipt, true],
    ["other-part", { ...receipt, accepted: false }, true],
    ["deleted", receipt, false],
  ] as const)("is %s", (reason, given, isPart) => {
    expect(noProfileReason(given, isPart)).toBe(reason);
  });
});
