import type { Token } from "@/charts/colour.ts";
import { largest } from "@/charts/lanes/prepare.ts";
import { roundMax, roundMaxBytes } from "@/charts/lanes/scale.ts";
import type { Layer, PlotLane } from "@/charts/lanes/types.ts";
import type { ClusterLanesQuery, SampleMetric } from "@/data/gql/graphql.ts";
import { byteExponent, byteRate, bytes, bytesIn, byteUnit } from "@/format/bytes.ts";
import { duration } from "@/format/duration.ts";
import { shortCount, threeDigits } from "@/format/number.ts";
import { FUNCTIONS_LANE } from "./function_lane.ts";

export type Series = NonNullable<NonNullable<ClusterLanesQuery["cluster"]>["series"]>[number];

/** The columns of several series at common times. */
export interface Columns {
  times: number[];
  stepSeconds: number;
  value(metric: SampleMetric): (number | null)[];
  extreme(metric: SampleMetric, which: "min" | "max"): (number | null)[];
}

/** Puts series of one bucket width into columns. A bucket without a measurement is null. */
export function columns(series: readonly Series[]): Columns {
  const all = new Set(series.flatMap(({ points }) => points.map(({ at }) => Date.parse(at) / 1000)));
  const times = [...all].sort((a, b) => a - b);
  const index = new Map(times.map((at, i) => [at, i]));
  const pick = (metric: SampleMetric, which: "value" | "min" | "max") => {
    const result = new Array<number | null>(times.length).fill(null);
    for (const point of series.find((one) => one.metric === metric)?.points ?? []) {
      const i = index.get(Date.parse(point.at) / 1000);
      if (i !== undefined) result[i] = point[which];
    }
    return result;
  };
  return {
    times,
    stepSeconds: step(times, series[0]?.bucketSeconds ?? 1),
    value: (metric) => pick(metric, "value"),
    extreme: pick,
  };
}

/** Returns the usual distance of buckets that have points: reports may come less often than buckets begin. */
export function step(times: readonly number[], bucketSeconds: number): number {
  const distances = times.slice(1).map((at, i) => at - (times[i] ?? 0));
  distances.sort((a, b) => a - b);
  return Math.max(bucketSeconds, distances[Math.floor(distances.length / 2)] ?? bucketSeconds);
}

interface LaneKind {
  id: string;
  title: string;
  metrics: readonly SampleMetric[];
  build(columns: Columns): PlotLane;
}

interface Plotted {
  id: string;
  title: string;
  note?: string;
  height?: number;
  main: string;
  whole?: PlotLane["whole"];
  unit: "count" | "bytes" | "rate" | "cores" | "seconds" | "share";
  max?: number;
  limit?: { value: number; label: string };
  empty?: string;
}

function plot(options: Plotted, { times, stepSeconds }: Columns, layers: Layer[]): PlotLane {
  const { unit, ...rest } = options;
  const stack = layers.filter(({ draw }) => draw === "area").map(({ values }) => largest(values) ?? 0);
  const single = layers
    .filter(({ draw }) => draw !== "area")
    .flatMap(({ values, high }) => [largest(values) ?? 0, largest(high ?? []) ?? 0]);
  const reached = Math.max(
    options.limit?.value ?? 0,
    stack.reduce((sum, value) => sum + value, 0),
    ...single,
  );
  const isBytes = unit === "bytes" || unit === "rate";
  const max = options.max ?? (isBytes ? roundMaxBytes(reached) : roundMax(reached));
  return {
    kind: "plot",
    height: 56,
    ...rest,
    times,
    stepSeconds,
    layers,
    max,
    ...(UNITS[unit] ? { unit: UNITS[unit] } : {}),
    format: isBytes ? inUnitOf(max, unit === "rate" ? "/s" : "") : FORMATS[unit],
    ...(isBytes ? { axisFormat: (value: number) => bytesIn(value, byteExponent(max)) } : {}),
  };
}

/** Returns a format whose values all have the unit of the axis, so that they compare at sight. */
function inUnitOf(max: number, suffix: string): (value: number) => string {
  const exponent = byteExponent(max);
  return (value) => `${bytesIn(value, exponent)}\u00a0${byteUnit(exponent)}${suffix}`;
}

const FORMATS: Record<Plotted["unit"], (value: number) => string> = {
  count: (value) => shortCount(Math.round(value * 10) / 10),
  bytes,
  rate: byteRate,
  cores: threeDigits,
  seconds: duration,
  share: (value) => `${threeDigits(value * 100)}\u00a0%`,
};

const UNITS: Partial<Record<Plotted["unit"], string>> = { bytes: "B", rate: "B/s", seconds: "s" };

function layer(
  id: string,
  label: string,
  colour: Token,
  values: (number | null)[],
  draw: Layer["draw"] = "area",
  more: Partial<Layer> = {},
): Layer {
  return { id, label, colour, values, draw, ...more };
}

/** The lanes of the time line, in their order: first what fails, then what is used, then the rest. */
export const LANE_KINDS: readonly LaneKind[] = [
  {
    id: "threads",
    title: "Busy threads",
    metrics: ["THREADS", "TASKS_PROCESSING"],
    build: (c) => {
      const threads = c.value("THREADS");
      // More tasks than threads can be assigned at once: those wait on their worker.
      const busy = c.value("TASKS_PROCESSING").map((tasks, i) => {
        const there = threads[i] ?? null;
        return tasks === null || there === null ? null : Math.min(tasks, there);
      });
      return plot(
        {
          id: "threads",
          title: "Busy threads",
          note: "with a task",
          height: 110,
          main: "busy",
          whole: { layer: "threads", rest: "idle" },
          unit: "count",
        },
        c,
        [
          layer("busy", "with a task", "--act-cpu", busy),
          layer("threads", "threads", "--text", threads, "steps"),
        ],
      );
    },
  },
  {
    id: "memory",
    title: "Memory",
    metrics: ["MEMORY_PROCESS", "MEMORY_MANAGED", "MEMORY_UNMANAGED", "MEMORY_SPILLED", "MEMORY_LIMIT"],
    build: (c) => {
      const limit = largest(c.value("MEMORY_LIMIT"));
      return plot(
        {
          id: "memory",
          title: "Memory",
          height: 84,
          main: "process",
          unit: "bytes",
          ...(limit ? { limit: { value: limit, label: "limit" } } : {}),
        },
        c,
        [
          layer("managed", "managed", "--mem-managed", c.value("MEMORY_MANAGED")),
          layer("unmanaged", "unmanaged", "--mem-unmanaged", c.value("MEMORY_UNMANAGED")),
          layer("spilled", "on disk, beside it", "--act-spill", c.value("MEMORY_SPILLED"), "area", {
            isHatched: true,
          }),
          layer("process", "process", "--mem-line", c.value("MEMORY_PROCESS"), "line", { isUnlisted: true }),
        ],
      );
    },
  },
  {
    id: "cpu",
    title: "CPU",
    metrics: ["CPU"],
    build: (c) =>
      plot({ id: "cpu", title: "CPU", note: "cores, of all workers", main: "cpu", unit: "cores" }, c, [
        layer("cpu", "cores", "--act-cpu", c.value("CPU")),
      ]),
  },
  {
    id: "gil",
    title: "GIL",
    metrics: ["GIL_CONTENTION_MIN", "GIL_CONTENTION", "GIL_CONTENTION_MAX"],
    build: (c) =>
      plot(
        {
          id: "gil",
          title: "GIL",
          note: "waiting for it: median and range",
          main: "gil",
          unit: "share",
          max: 1,
          empty: "Not reported: install gilknocker beside Dask",
        },
        c,
        [
          layer("gil", "median", "--text-2", c.value("GIL_CONTENTION"), "band", {
            low: c.value("GIL_CONTENTION_MIN"),
            high: c.value("GIL_CONTENTION_MAX"),
          }),
        ],
      ),
  },
  {
    id: "network",
    title: "Network",
    metrics: ["NETWORK_READ", "NETWORK_WRITE"],
    build: (c) =>
      plot({ id: "network", title: "Network", note: "of the hosts", main: "read", unit: "rate" }, c, [
        layer("read", "received", "--act-network", c.value("NETWORK_READ"), "line"),
        layer("write", "sent", "--act-overhead", c.value("NETWORK_WRITE"), "line"),
      ]),
  },
  {
    id: "disk",
    title: "Disk",
    metrics: ["DISK_READ", "DISK_WRITE"],
    build: (c) =>
      plot({ id: "disk", title: "Disk", note: "of the hosts", main: "write", unit: "rate" }, c, [
        layer("write", "written", "--act-spill", c.value("DISK_WRITE"), "line"),
        layer("read", "read", "--act-waiting", c.value("DISK_READ"), "line"),
      ]),
  },
  {
    id: "loop",
    title: "Event loop",
    metrics: ["EVENT_LOOP", "EVENT_LOOP_MAX", "SCHEDULER_EVENT_LOOP"],
    build: (c) =>
      plot(
        { id: "loop", title: "Event loop", note: "time between ticks", main: "median", unit: "seconds" },
        c,
        [
          layer("median", "median worker", "--text-2", c.value("EVENT_LOOP"), "line"),
          layer("max", "slowest worker", "--act-waiting", c.value("EVENT_LOOP_MAX"), "line"),
          layer("scheduler", "scheduler", "--act-network", c.value("SCHEDULER_EVENT_LOOP"), "line"),
        ],
      ),
  },
  {
    id: "tasks",
    title: "Tasks",
    metrics: ["TASKS_PROCESSING", "TASKS_QUEUED", "TASKS_WAITING", "TASKS_NO_WORKER", "TASKS_MEMORY"],
    build: (c) =>
      plot(
        { id: "tasks", title: "Tasks", note: "by state", height: 84, main: "processing", unit: "count" },
        c,
        [
          layer("processing", "assigned", "--act-cpu", c.value("TASKS_PROCESSING")),
          layer("queued", "queued", "--act-waiting", c.value("TASKS_QUEUED")),
          layer("waiting", "wait for others", "--act-overhead", c.value("TASKS_WAITING")),
          layer("none", "no worker may", "--act-failed", c.value("TASKS_NO_WORKER")),
          layer("memory", "results held", "--mem-line", c.value("TASKS_MEMORY"), "line"),
        ],
      ),
  },
  {
    id: "workers",
    title: "Workers",
    metrics: ["WORKERS"],
    build: (c) =>
      plot({ id: "workers", title: "Workers", main: "workers", unit: "count", height: 40 }, c, [
        layer("workers", "workers", "--text", c.value("WORKERS"), "steps"),
      ]),
  },
];

/** Returns the lanes of the kinds, each with the times of its own metrics. */
export function plotLanes(kinds: readonly LaneKind[], series: readonly Series[]): PlotLane[] {
  return kinds.map(({ metrics, build }) =>
    build(columns(series.filter(({ metric }) => metrics.includes(metric)))),
  );
}

/** The lanes of bars, from the marks' document. */
export const BAR_LANES = [
  { id: "spans", title: "Spans" },
  { id: "groups", title: "Task groups" },
] as const;

/** Returns the lanes that are shown unless the user chooses others. They have the threads once. */
export function defaultLanes(hasFunctions: boolean): string[] {
  return ["spans", hasFunctions ? FUNCTIONS_LANE.id : "threads", "memory", "cpu", "gil"];
}

/** All lanes, in their order. */
export const ALL_LANES: readonly { id: string; title: string }[] = [
  ...BAR_LANES,
  FUNCTIONS_LANE,
  ...LANE_KINDS,
];
