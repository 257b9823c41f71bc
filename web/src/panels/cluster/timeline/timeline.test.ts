import { describe, expect, it } from "vitest";
import type { Lane } from "@/charts/lanes/types.ts";
import { rowsWithoutOverlap } from "./bar_rows.ts";
import { columns, LANE_KINDS, type Series, step } from "./lane_kinds.ts";
import { lanesSheet } from "./lanes_sheet.ts";

const at = (second: number) => new Date(Date.UTC(2026, 10, 24) + second * 1000).toISOString();
const base = Date.UTC(2026, 10, 24) / 1000;

function series(metric: Series["metric"], values: [number, number][]): Series {
  const points = values.map(([second, value]) => ({ at: at(second), value, min: value - 1, max: value + 1 }));
  return { metric, unit: "COUNT", bucketSeconds: 1, points };
}

describe("the lanes of a cluster", () => {
  const read = columns([
    series("THREADS", [
      [0, 4],
      [5, 4],
      [10, 8],
    ]),
    series("TASKS_PROCESSING", [
      [0, 2],
      [10, 30],
    ]),
  ]);

  it("leave out what was not measured, instead of drawing zero", () => {
    expect(read.times).toEqual([base, base + 5, base + 10]);
    expect(read.value("TASKS_PROCESSING")).toEqual([2, null, 30]);
    expect(read.extreme("THREADS", "max")).toEqual([5, 5, 9]);
    expect(read.value("CPU")).toEqual([null, null, null]);
  });

  it("show no more busy threads than there are", () => {
    const lane = LANE_KINDS.find(({ id }) => id === "threads")?.build(read);
    expect(lane?.layers.map(({ id, values }) => [id, values])).toEqual([
      ["busy", [2, null, 8]],
      ["threads", [4, 4, 8]],
    ]);
    expect(lane?.max).toBe(8);
  });

  it("take the usual distance of reports as their step", () => {
    expect(step([0, 5, 10, 15, 60], 1)).toBe(5);
    expect(step([0, 5], 30)).toBe(30);
    expect(step([7], 2)).toBe(2);
  });
});

describe("bars", () => {
  const bar = (id: string, from: number, to: number) => ({ id, from, to, label: id });
  it("share a row unless they overlap, and the rest is counted", () => {
    const bars = [bar("c", 5, 8), bar("a", 0, 10), bar("b", 0, 5), bar("d", 1, 2), bar("e", 10, 12)];
    const { rows, left } = rowsWithoutOverlap(bars, 2);
    expect(rows.map((row) => row.map(({ id }) => id))).toEqual([
      ["a", "e"],
      ["b", "c"],
    ]);
    expect(left).toBe(1);
  });
});

describe("the table of the lanes that leaves the page", () => {
  it("has a column for each layer with its unit, and leaves out bars and lanes without values", () => {
    const read = columns([series("MEMORY_PROCESS", [[0, 1024]])]);
    const memory = LANE_KINDS.find(({ id }) => id === "memory")?.build(read);
    const cpu = LANE_KINDS.find(({ id }) => id === "cpu")?.build(columns([]));
    const bars: Lane = { kind: "bars", id: "spans", title: "Spans", rows: [] };
    if (!memory || !cpu) throw new Error("lanes are missing");
    const { head, rows } = lanesSheet([bars, memory, cpu], { from: base, to: base + 10 });
    expect(head).toEqual([
      "time (UTC)",
      "Memory, managed, B",
      "Memory, unmanaged, B",
      "Memory, on disk, beside it, B",
      "Memory, process, B",
    ]);
    expect(rows).toEqual([[at(0), null, null, null, 1024]]);
  });
});
