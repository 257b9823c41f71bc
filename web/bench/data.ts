import type { FlameTree } from "@/charts/flame/layout.ts";
import type { Lane, Layer, PlotLane, TimeRange } from "@/charts/lanes/types.ts";
import { bytes } from "@/format/bytes.ts";
import type { Row } from "@/panels/clusters/rows.ts";

/** Returns a generator of numbers from 0 to 1 that are the same in each run. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const START = Date.UTC(2026, 10, 24) / 1000;
const STEP_SECONDS = 15;
const GIB = 1024 ** 3;

/** Returns lanes with an area and a line each. */
export function manyLanes(number: number, points: number): { lanes: Lane[]; shown: TimeRange } {
  const random = generator(1);
  const times = Array.from({ length: points }, (_, i) => START + i * STEP_SECONDS);
  const walk = () => {
    let value = 0.5;
    return times.map(() => {
      value = Math.min(1, Math.max(0, value + (random() - 0.5) / 10));
      return value * 10 * GIB;
    });
  };
  const lanes = Array.from({ length: number }, (_, i): PlotLane => {
    const layers: Layer[] = [
      { id: "managed", label: "managed", colour: "--mem-managed", draw: "area", values: walk() },
      { id: "process", label: "process", colour: "--mem-line", draw: "line", values: walk() },
    ];
    return {
      kind: "plot",
      id: `lane-${i}`,
      title: `Memory ${i}`,
      note: "of all workers",
      height: 56,
      times,
      stepSeconds: STEP_SECONDS,
      layers,
      main: "process",
      max: 12 * GIB,
      format: bytes,
    };
  });
  return { lanes, shown: { from: START, to: START + points * STEP_SECONDS } };
}

/** The share of the whole below which no call is divided further: 0.9 of 1,200 pixels. */
const LEAST_SHARE = 0.9 / 1200;

/**
 * Returns a call tree. Each call of the first levels has several callees; those that are too narrow for it
 * have one, as in deep stacks, so that every node is wide enough to be drawn.
 */
export function callTree(nodes: number): FlameTree {
  const random = generator(2);
  const parents = [-1];
  const totals = [1];
  for (let parent = 0; parents.length < nodes; parent++) {
    const total = totals[parent] ?? 0;
    const parts = Math.min(Math.floor(total / LEAST_SHARE), 2 + Math.floor(random() * 3));
    const weights = Array.from({ length: Math.max(1, parts) }, () => 1 + random());
    const sum = weights.reduce((all, weight) => all + weight, 0);
    for (const weight of weights) {
      if (parents.length === nodes) break;
      parents.push(parent);
      totals.push((total * weight) / sum);
    }
  }
  const names = parents.map((_, i) => `function_${i % 997}`);
  return { parents: Int32Array.from(parents), totals: Float64Array.from(totals), names };
}

const STATES = ["CLOSED", "CLOSED", "CLOSED", "RUNNING", "IDLE", "LOST"] as const;
const USERS = ["ada", "grace", "linus", "margaret"];
const NAMES = ["features-daily", "notebook", "sensor-hourly", "adhoc-lidar", "sim-mesh"];

/** Returns rows of the list of clusters. */
export function manyClusters(number: number): Row[] {
  const random = generator(3);
  const below = (most: number) => Math.floor(random() * most);
  return Array.from({ length: number }, (_, i): Row => {
    const state = STATES[below(STATES.length)] ?? "CLOSED";
    const isLive = state === "RUNNING" || state === "IDLE";
    const startedAt = new Date((START - i * 600) * 1000).toISOString();
    const seconds = 60 + below(7000);
    const endedAt = new Date(Date.parse(startedAt) + seconds * 1000).toISOString();
    const user = USERS[below(USERS.length)] ?? "";
    const workers = 1 + below(100);
    const threadSeconds = seconds * workers * 4;
    return {
      id: `cluster-${i}`,
      number: number - i,
      schedulerId: `Scheduler-${i}`,
      name: NAMES[below(NAMES.length)] ?? null,
      state,
      desiredState: "RUNNING",
      startedAt,
      endedAt: isLive ? null : endedAt,
      durationSeconds: seconds,
      lastSeenAt: endedAt,
      idleSeconds: below(600),
      closeReason: null,
      answers: { finished: { value: 9, share: 0.9, headline: "9 of 10 computations finished" } },
      user: { id: user, name: user },
      tags: [{ key: "team", value: user }],
      notes: null,
      now: isLive ? { workers, threads: workers * 4, memoryUsed: GIB, memoryLimit: 4 * GIB } : null,
      totals: {
        tasks: below(100_000),
        tasksErred: below(3),
        errors: below(3),
        bytes: below(1e12),
        workers,
        peakWorkers: workers,
        peakThreads: workers * 4,
        computeSeconds: threadSeconds / 2,
        threadSeconds,
      },
      usage: {
        threadSeconds,
        utilization: 0.5,
        idleSeconds: threadSeconds / 4,
        causes: [
          { cause: "CPU", seconds: threadSeconds / 2 },
          { cause: "WAITING", seconds: threadSeconds / 4 },
          { cause: "IDLE", seconds: threadSeconds / 4 },
        ],
        costs: [{ amount: threadSeconds / 70_000, currency: "USD", basis: "ESTIMATED" }],
      },
      flags: { nodes: i % 3 === 0 ? [{ kind: "SPILLING", text: "Workers hold results on disk" }] : [] },
    };
  });
}
