import { describe, expect, it } from "vitest";
import {
  byActivity,
  byFunction,
  type Comparison,
  changesOf,
  differenceToken,
  type ProfileComparison,
  pointsOf,
} from "./differences.ts";
import { allParts, foldedParts } from "./folded_parts.ts";

type Row = Comparison["rows"][number];

const row = (part: Row["key"]["part"], name: string | null, activity: string | null, delta: number): Row => ({
  key: { part, function: name, activity },
  base: null,
  head: null,
  delta,
});

const rows = [
  row("IDLE", null, null, 6),
  row("TASKS", "load", "disk-write", 5),
  row("TASKS", "load", "thread-cpu", -2),
  row("TASKS", "fit", "disk-read", 1),
  row("TASKS", "fit", "thread-cpu", 2),
  row("OVERCOUNTED", null, null, -0.5),
  row("NOT_COLLECTED", null, null, 4),
];
const rest = { rows: 3, base: 1, head: 2, delta: 1.5 };
const sum = (parts: readonly { delta: number }[]) => parts.reduce((total, { delta }) => total + delta, 0);

describe("a comparison", () => {
  it("adds up by activity", () => {
    const parts = byActivity({ rows, remaining: rest });
    expect(parts.map(({ label, delta }) => [label, delta])).toEqual([
      ["Idle", 6],
      ["Spill", 6],
      ["Unaccounted", 4],
      ["smaller parts", 1.5],
      ["Counted twice", -0.5],
    ]);
    expect(sum(parts)).toBe(sum(rows) + rest.delta);
  });

  it("adds up by function", () => {
    const none = { rows: 0, base: 0, head: 0, delta: 0 };
    expect(
      byFunction({ rows, remaining: none }).map(({ label, delta, colour }) => [label, delta, colour]),
    ).toEqual([
      ["no task", 6, "--more"],
      ["not measured", 4, "--more"],
      ["load", 3, "--more"],
      ["fit", 3, "--more"],
      ["no function", -0.5, "--less"],
    ]);
    const many = Array.from({ length: 9 }, (_, i) => row("TASKS", `f${i}`, "thread-cpu", 10 - i));
    const parts = byFunction({ rows: many, remaining: rest });
    expect(parts.map(({ label, delta }) => [label, delta]).at(-1)).toEqual(["others", 4 + 3 + 2 + 1.5]);
    expect(sum(parts)).toBe(sum(many) + rest.delta);
  });

  it("lists the parts that matter, and sums all others in one line", () => {
    const tasks = (deltas: readonly number[]) =>
      deltas.map((delta, at) => ({
        ...row("TASKS", `f${at}`, "thread-cpu", delta),
        base: 120,
        head: 120 + delta,
      }));
    const lines = (deltas: readonly number[], remaining = { rows: 0, base: 0, head: 0, delta: 0 }) =>
      foldedParts(allParts({ rows: tasks(deltas), remaining })).map(({ name, base, head, delta }) => [
        name,
        base,
        head,
        delta,
      ]);
    // 420 of 442 s are 95 %.
    expect(lines([300, -90, 30, 8, -6, 4, 2], { rows: 50, base: 30, head: 32, delta: 2 })).toEqual([
      ["f0", 120, 420, 300],
      ["f1", 120, 30, -90],
      ["f2", 120, 150, 30],
      ["54 others", 4 * 120 + 30, 4 * 120 + 8 + 32, 10],
    ]);
    // In minutes, 2.9 s read as less than a tenth.
    expect(lines([3, 2.9, 2.9, -2.9])).toEqual([
      ["f0", 120, 123, 3],
      ["3 others", 360, 362.9, 2.9],
    ]);
    // Thirty equal parts are too many.
    expect(lines(Array.from({ length: 30 }, () => 60)).map(([name]) => name)).toEqual([
      ...Array.from({ length: 20 }, (_, at) => `f${at}`),
      "10 others",
    ]);
    // What Dask measures in several ways is one part. Its directions cancel out.
    const spill = [row("TASKS", "load", "disk-write", 90), row("TASKS", "load", "disk-read", -30)];
    expect(
      foldedParts(
        allParts({ rows: [...spill, ...tasks([75])], remaining: { rows: 0, base: 0, head: 0, delta: 0 } }),
      ).map(({ name, measured, base, delta }) => [name, measured, base, delta]),
    ).toEqual([
      ["f0", "thread-cpu", 120, 75],
      ["load", "disk-write, disk-read", null, 60],
    ]);
    // A single part is not folded.
    expect(lines([300, 1]).map(([name]) => name)).toEqual(["f0", "f1"]);
  });

  it("lists what differs, and nothing that is the same", () => {
    const size = { peakWorkers: 3, peakThreads: 6, workerThreads: 2, workerMemoryLimit: 2 ** 30 };
    const environment = {
      known: true,
      codeChanged: true,
      added: [{ name: "numba", from: [], to: ["0.60"] }],
      removed: [],
      changed: [{ name: "pyarrow", from: ["17.0.0"], to: ["18.1.0", "18.2.0"] }],
      python: null,
      os: null,
      machine: null,
      baseSize: size,
      headSize: { ...size, peakWorkers: 1, workerMemoryLimit: 2 ** 29 },
    };
    expect(
      changesOf(environment).map(({ name, from, to }) =>
        [name, from, to].join(" | ").replaceAll("\u00a0", " "),
      ),
    ).toEqual([
      "code that called Dask |  | differs",
      "pyarrow | 17.0.0 | 18.1.0, 18.2.0",
      "numba | none | 0.60",
      "workers at most | 3 workers | 1 worker",
      "memory of a worker | 1 GiB | 512 MiB",
    ]);
    expect(changesOf({ ...environment, codeChanged: null, added: [], changed: [], headSize: size })).toEqual(
      [],
    );
  });

  it("colours less and more, and neither below 0.6 points", () => {
    expect([-9, -2, -0.6, -0.5, 0, 0.6, 4.9, 5].map(differenceToken)).toEqual([
      "--div-less-3",
      "--div-less-2",
      "--div-less-1",
      "--flame-dask",
      "--flame-dask",
      "--div-more-1",
      "--div-more-2",
      "--div-more-3",
    ]);
    const profile: ProfileComparison = {
      baseSamples: 200,
      headSamples: 100,
      complete: true,
      frames: [],
      nodes: [{ parent: null, frame: 0, baseTotal: 50, headSelf: 0, headTotal: 75 }],
    };
    expect(pointsOf(profile, 0)).toBe(50);
    expect(pointsOf({ ...profile, headSamples: 0 }, 0)).toBe(-25);
  });
});
