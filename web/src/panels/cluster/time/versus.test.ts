import { describe, expect, it } from "vitest";
import type { FunctionTime } from "./spread.ts";
import { withOthers } from "./spread.ts";
import { compareFunctions } from "./versus.ts";

type Comparison = Parameters<typeof compareFunctions>[0];

const time = (name: string, total: number): FunctionTime => ({
  function: name,
  total,
  byActivity: new Map(),
  measured: [],
});

const row = (
  name: string | null,
  base: number | null,
  delta: number,
  activity = "thread-cpu",
): Comparison["rows"][number] => ({
  key: { part: "TASKS", function: name, activity },
  base,
  delta,
});

const answer = (rows: Comparison["rows"], left = 0): Comparison => ({ rows, remaining: { rows: left } });

describe("the last good run beside the functions", () => {
  it("has the rows that are shown, and adds up with those that only it has", () => {
    const functions = Array.from({ length: 10 }, (_, i) => time(`f${i}`, 10 - i));
    const shown = withOthers(functions);
    const rows = functions.map(({ function: name, total }) => row(name, total - 0.5, 0.5));
    const idle: Comparison["rows"][number] = {
      key: { part: "IDLE", function: null, activity: null },
      base: 9,
      delta: 9,
    };
    const all = compareFunctions(answer([idle, row("gone", 4, -4), ...rows]), shown, functions);
    expect(all?.byRow.get("f0")).toEqual({ base: 9.5, delta: 0.5 });
    expect(all?.byRow.get("3 others")).toEqual({ base: 3 + 2 + 1 - 1.5, delta: 1.5 });
    expect(all?.missing).toEqual({ functions: 1, base: 4, delta: -4 });
    const deltas = [...(all?.byRow.values() ?? [])].reduce((total, { delta }) => total + delta, 0);
    expect(deltas + (all?.missing.delta ?? 0)).toBeCloseTo(all?.total.delta ?? 0, 9);
  });

  it("had nothing of a function that is new, and calls what has no function alike", () => {
    const functions = [time("new", 3), time("not attributed to a function", 1)];
    const all = compareFunctions(answer([row("new", null, 3), row(null, 2, -1)]), functions, functions);
    expect(all?.byRow.get("new")).toEqual({ base: 0, delta: 3 });
    expect(all?.byRow.get("not attributed to a function")).toEqual({ base: 2, delta: -1 });
  });

  it("has the activities of a function, which add up to it", () => {
    const functions = [time("load", 5)];
    const rows = [row("load", 1, 2), row("load", 3, -1, "disk-read")];
    const all = compareFunctions(answer(rows), functions, functions);
    expect(all?.byRow.get("load")).toEqual({ base: 4, delta: 1 });
    expect(all?.byActivity("load").get("disk-read")).toEqual({ base: 3, delta: -1 });
    expect(all?.byActivity("save").size).toBe(0);
  });

  it("is not shown in part", () => {
    expect(compareFunctions(answer([], 1), [], [])).toBeNull();
  });
});
