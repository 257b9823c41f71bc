import { describe, expect, it } from "vitest";
import { type FineTable, spread, withOthers } from "./spread.ts";

type Row = FineTable["rows"][number];

const row = (part: Row["key"]["part"], name: string | null, activity: string | null, value: number): Row => ({
  key: { part, function: name, activity },
  value,
});

const table: FineTable = {
  unit: "seconds",
  units: ["seconds"],
  total: 100,
  rowCount: 6,
  clustersWithoutMetrics: 0,
  rows: [
    row("IDLE", null, null, 40),
    row("TASKS", "load", "thread-noncpu", 30),
    row("TASKS", "load", "thread-cpu", 10),
    row("TASKS", "save", "disk-write", 15),
    row("TASKS", "save", "compress", 5),
    row("OUTSIDE_TASKS", null, "network", 99),
  ],
};

describe("time by function", () => {
  it("adds up to the time of tasks, without idle time and what lies beside tasks", () => {
    const { functions, total, beside } = spread(table);
    expect(total).toBe(60);
    expect(functions.map(({ function: name, total: sum }) => [name, sum])).toEqual([
      ["load", 40],
      ["save", 20],
    ]);
    expect([...(functions[1]?.byActivity ?? [])]).toEqual([["SPILL", 20]]);
    expect(functions[0]?.measured[0]).toEqual({ name: "thread-noncpu", value: 30 });
    expect(beside).toEqual([{ name: "network", value: 99 }]);
  });

  it("keeps the sum when small functions are shown together", () => {
    const many = Array.from({ length: 12 }, (_, i) => row("TASKS", `f${i}`, "thread-cpu", 12 - i));
    const { functions, total } = spread({ ...table, rows: many });
    const shown = withOthers(functions);
    expect(shown.at(-1)?.function).toBe("5 others");
    expect(shown.reduce((sum, one) => sum + one.total, 0)).toBe(total);
    expect(shown.at(-1)?.byActivity.get("CPU")).toBe(5 + 4 + 3 + 2 + 1);
  });
});
