import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { functionTokens, OTHERS } from "@/charts/colour.ts";
import type { PlotLane } from "@/charts/lanes/types.ts";
import {
  type Activity,
  activityVariables,
  functionLane,
  functionSheet,
  reasonWithout,
  settledUntil,
  type Threads,
  type WithoutActivity,
} from "./function_lane.ts";

const BASE = Date.UTC(2026, 10, 24) / 1000;
const at = (second: number) => new Date((BASE + second) * 1000).toISOString();

/** Returns the answer for compute seconds by function and bucket, as the server would give it. */
function activity(
  columns: Record<string, number[]>,
  others: number[],
  start = 0,
  stepSeconds = 15,
): Activity {
  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
  const functions = Object.entries(columns).map(([prefix, seconds]) => ({
    prefix,
    threads: seconds.map((value) => value / stepSeconds),
    computeSeconds: sum(seconds),
  }));
  return {
    startedAt: at(start),
    stepSeconds,
    functions,
    otherThreads: others.map((value) => value / stepSeconds),
    computeSeconds: sum(functions.map(({ computeSeconds }) => computeSeconds)) + sum(others),
  };
}

const NOTHING: Activity = {
  startedAt: null,
  stepSeconds: 15,
  functions: [],
  otherThreads: [],
  computeSeconds: 0,
};

function threads(values: (number | null)[], start = 0, stepSeconds = 15): Threads {
  return { startedAt: at(start), stepSeconds, values };
}

const values = (lane: PlotLane, id: string) => lane.layers.find((layer) => layer.id === id)?.values;
const areas = (lane: PlotLane) => lane.layers.filter(({ draw }) => draw === "area");

function integral(lane: PlotLane): number {
  const all = areas(lane).flatMap((layer) => layer.values);
  return all.reduce<number>((sum, value) => sum + (value ?? 0) * lane.stepSeconds, 0);
}

describe("the threads by function", () => {
  it("have the compute time as their integral, whatever was observed and is not settled", () => {
    const seconds = fc.array(fc.oneof(fc.constant(0), fc.double({ min: 0.01, max: 6000, noNaN: true })), {
      minLength: 1,
      maxLength: 30,
    });
    const columns = fc.dictionary(fc.string(), seconds, { minKeys: 1, maxKeys: 7 });
    const observed = fc.array(fc.option(fc.nat(100)), { maxLength: 40 });
    const bucket = fc.integer({ min: -10, max: 40 });
    fc.assert(
      fc.property(columns, seconds, observed, bucket, bucket, (named, others, there, start, settled) => {
        const given = activity(named, others, start * 15);
        const lane = functionLane(given, threads(there), BASE + settled * 15);
        expect(integral(lane)).toBeCloseTo(given.computeSeconds, 4);
        const busy = values(lane, "busy") ?? [];
        for (const [i, value] of busy.entries()) {
          const sum = areas(lane).reduce((total, layer) => total + (layer.values[i] ?? 0), 0);
          expect(sum).toBeCloseTo(value ?? 0, 6);
        }
      }),
    );
  });

  it("are 0 where the cluster was observed, and unknown where it was not", () => {
    const given = activity({ load: [30, 0, 0, 0, 0, 15] }, [0, 0, 0, 0, 0, 0], 15);
    const lane = functionLane(given, threads([4, 4, null, null, null, 4]));
    expect(lane.times).toEqual([0, 15, 75, 90].map((second) => BASE + second));
    expect(values(lane, "of-load")).toEqual([0, 2, 0, 1]);
    expect(values(lane, "threads")).toEqual([4, 4, 4, null]);
    expect(values(lane, "others")).toBeUndefined();
    expect(lane.max).toBe(4);
  });

  it("are 0 between reports that come less often than buckets, so that no area is drawn there", () => {
    const given = activity({ load: [75, 0, 75, 0] }, []);
    const lane = functionLane(given, threads([5, null, null, 5, null]));
    expect(lane.times).toEqual([0, 15, 30, 45].map((second) => BASE + second));
    expect(values(lane, "of-load")).toEqual([5, 0, 5, 0]);
    expect(values(lane, "threads")).toEqual([5, 5, 5, 5]);
  });

  it("are unknown after the last activity, until that is settled", () => {
    const given = activity({ load: [15, 15] }, []);
    const lane = functionLane(given, threads([4, 4, 4, 4, 4]), BASE + 50);
    expect(values(lane, "of-load")).toEqual([1, 1, 0, null, null]);
    expect(values(lane, "busy")).toEqual([1, 1, 0, null, null]);
    expect(values(lane, "threads")).toEqual([4, 4, 4, 4, 4]);
    expect(lane.settledUntil).toBe(BASE + 50);
    const early = functionLane(given, threads([4, 4, 4]), BASE);
    expect(values(early, "of-load")).toEqual([1, 1, null]);
  });

  it("are 0 in a part of the run without activity, as far as the cluster was observed", () => {
    const lane = functionLane(NOTHING, threads([4, null, null, null, 4]));
    expect(lane.times).toEqual([BASE, BASE + 60]);
    expect(values(lane, "busy")).toEqual([0, 0]);
    expect(functionLane(NOTHING, null).times).toEqual([]);
  });

  it("have the functions' colours in the order of size, and others in grey above them", () => {
    const lane = functionLane(activity({ load: [9], clean: [5], save: [2] }, [1]), null);
    const tokens = functionTokens(["load", "clean", "save"]);
    expect(areas(lane).map(({ label, colour }) => [label, colour])).toEqual([
      ["load", tokens.get("load")],
      ["clean", tokens.get("clean")],
      ["save", tokens.get("save")],
      ["others", OTHERS],
    ]);
  });

  it("leave out threads that were measured for buckets of another width", () => {
    const lane = functionLane(activity({ load: [9] }, []), threads([4, 4], 0, 30));
    expect(values(lane, "threads")).toEqual([null]);
  });

  it("never read as 0 unless they are", () => {
    const { format } = functionLane(NOTHING, null);
    expect([0, 0.001, 0.25, 12.34].map(format)).toEqual(["0", "<\u00a00.01", "0.25", "12.3"]);
  });

  it("leave the page with all values and the exact times", () => {
    const lane = functionLane(activity({ load: [30, 0] }, [0, 3]), threads([4]));
    expect(functionSheet(lane)).toEqual({
      head: ["start of 15 s (UTC)", "load", "others", "all functions", "threads"],
      rows: [
        [at(0), 2, 0, 2, 4],
        [at(15), 0, 0.2, 0.2, null],
      ],
    });
  });
});

describe("the time that is not settled", () => {
  it("is the last two minutes of a live cluster, and at least the bucket in which time is left", () => {
    expect(settledUntil(false, BASE + 600, 15)).toBeNull();
    expect(settledUntil(true, BASE + 600, 15)).toBe(BASE + 480);
    expect(settledUntil(true, BASE + 4_000, 1_800)).toBe(BASE + 3_600);
  });
});

describe("the question for the threads by function", () => {
  const range = (from: number, to: number) => ({ from: BASE + from, to: BASE + to });
  it("is for whole buckets, whose widths are multiples of 15 s", () => {
    expect(activityVariables("c", range(7, 100), false)).toEqual({
      id: "c",
      from: at(0),
      to: at(105),
      width: 15,
    });
    const days = activityVariables("c", range(100, 86_400), true);
    expect(days).toEqual({ id: "c", from: at(0), to: null, width: 300 });
  });
  it("leaves the start to the server for a life that is too long for one answer", () => {
    const day = 86_400;
    expect(activityVariables("c", range(0, 30 * day), false).from).toBe(at(0));
    expect(activityVariables("c", range(0, 32 * day), false).from).toBeNull();
  });
});

describe("the reason for no activity at all", () => {
  const facts = (change: {
    receipt?: Partial<WithoutActivity["privacy"]["classes"][number]>;
    tasksSucceeded?: number;
    computeSeconds?: number;
    taskGroups?: number;
  }): WithoutActivity => ({
    id: "c",
    totals: { tasksSucceeded: change.tasksSucceeded ?? 9, computeSeconds: change.computeSeconds ?? 30 },
    taskGroups: { totalCount: change.taskGroups ?? 2 },
    privacy: {
      classes: [{ class: "TASKS", sent: 12, withheld: 0, dropped: 0, accepted: true, ...change.receipt }],
    },
  });

  it.each([
    [{ receipt: { accepted: false } }, "The account refuses data about tasks"],
    [{ receipt: { withheld: 3 } }, "The account refused data about tasks while this cluster ran"],
    [{ receipt: { dropped: 3 } }, "The account refused data about tasks while this cluster ran"],
    [{ tasksSucceeded: 0 }, "No task has succeeded"],
    [{ tasksSucceeded: 0, receipt: { sent: null } }, "Not reported"],
    [{ taskGroups: 0 }, "No longer stored: older than the account keeps it"],
    [{ computeSeconds: 0.01 }, "The tasks were too short to be drawn"],
    [{}, "Not reported: by an older version of Galvo, or an imported file"],
  ])("%j: %s", (change, text) => expect(reasonWithout(facts(change), false)).toBe(text));

  it("is not certain while the cluster runs", () => {
    expect(reasonWithout(facts({}), true)).toBe("Not reported yet; older versions of Galvo do not report it");
  });
});
