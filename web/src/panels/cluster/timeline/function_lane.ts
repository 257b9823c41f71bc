import { functionTokens, OTHERS } from "@/charts/colour.ts";
import { GAP_STEPS, largest } from "@/charts/lanes/prepare.ts";
import { roundMax } from "@/charts/lanes/scale.ts";
import type { Layer, PlotLane, TimeRange } from "@/charts/lanes/types.ts";
import type {
  ClusterFunctionActivityQuery,
  ClusterFunctionActivityQueryVariables,
  ClusterWithoutActivityQuery,
} from "@/data/gql/graphql.ts";
import { threeDigits } from "@/format/number.ts";
import { receiptOf } from "@/panels/cluster/receipts/receipts.ts";
import type { Sheet } from "@/panels/take_away/csv.ts";
import { bucketWidth, iso } from "./window.ts";

type Answer = NonNullable<ClusterFunctionActivityQuery["cluster"]>;
export type Activity = NonNullable<Answer["functionActivity"]>;
export type Threads = NonNullable<Answer["series"]>[number]["columns"];
export type WithoutActivity = NonNullable<ClusterWithoutActivityQuery["cluster"]>;

export const FUNCTIONS_LANE = { id: "functions", title: "Threads by function" } as const;

/** The width of the intervals that schedulers report. */
const INTERVAL_SECONDS = 15;
/** A task adds to the intervals in which it ran when it has ended and that is reported. */
const UNSETTLED_SECONDS = 120;
/** The longest period that the server answers. */
const LONGEST_SECONDS = 31 * 86_400;

/** Returns the variables for a part of a cluster's life, or for its whole life up to the last report. */
export function activityVariables(
  id: string,
  range: TimeRange,
  reachesToNow: boolean,
): ClusterFunctionActivityQueryVariables {
  const width = Math.max(INTERVAL_SECONDS, bucketWidth(range.to - range.from));
  // Whole buckets: the first task began in an interval that begins before the cluster.
  const from = Math.floor(range.from / width) * width;
  const to = (Math.floor(range.to / width) + 1) * width;
  return {
    id,
    // Without a start, the answer has the last part that is short enough.
    from: to - from > LONGEST_SECONDS ? null : iso(from),
    to: reachesToNow ? null : iso(to),
    width,
  };
}

/**
 * Returns the time before which the activity does not change any more. Null for a cluster that has ended. A bucket
 * in which time is left is not settled: its mean is that of the whole bucket.
 */
export function settledUntil(isLive: boolean, lastAt: number, stepSeconds: number): number | null {
  if (!isLive) return null;
  return Math.min(lastAt - UNSETTLED_SECONDS, Math.floor(lastAt / stepSeconds) * stepSeconds);
}

/** Values of consecutive buckets. */
interface Column {
  /** The number of the first bucket since 1970. Null without values. */
  start: number | null;
  values: readonly (number | null)[];
}

function column(startedAt: string | null | undefined, stepSeconds: number, values: Column["values"]): Column {
  return { start: startedAt ? Math.round(Date.parse(startedAt) / 1000 / stepSeconds) : null, values };
}

function valueIn({ start, values }: Column, bucket: number): number | null {
  return start === null ? null : (values[bucket - start] ?? null);
}

/** Returns the values with those before them in short gaps, since reports may come less often than buckets. */
function withoutShortGaps(values: Column["values"]): Column["values"] {
  const filled = [...values];
  let last = -1;
  values.forEach((value, i) => {
    if (value === null) return;
    if (last >= 0 && i - last <= GAP_STEPS) filled.fill(values[last] ?? null, last + 1, i);
    last = i;
  });
  return filled;
}

/** Returns the buckets from the start of the first column to the end of the last one. */
function bucketsOf(...columns: Column[]): number[] {
  const known = columns.flatMap(({ start, values }) =>
    start === null ? [] : [{ start, end: start + values.length }],
  );
  if (known.length === 0) return [];
  const first = Math.min(...known.map(({ start }) => start));
  const end = Math.max(...known.map((one) => one.end));
  return Array.from({ length: end - first }, (_, i) => first + i);
}

/**
 * Returns the lane. The integral of its areas is the activity's compute time. A bucket without activity is 0 only
 * if the cluster was observed then; of those after the last activity that are not settled, nothing is known.
 */
export function functionLane(
  activity: Activity,
  threads: Threads | null,
  settled: number | null = null,
): PlotLane {
  const { functions, otherThreads, stepSeconds } = activity;
  const parts = [...functions.map((one) => one.threads), otherThreads];
  const sums = Array.from({ length: Math.max(...parts.map(({ length }) => length)) }, (_, i) =>
    parts.reduce((sum, values) => sum + (values[i] ?? 0), 0),
  );
  const all = column(activity.startedAt, stepSeconds, sums);
  const there = column(
    threads?.startedAt,
    stepSeconds,
    threads?.stepSeconds === stepSeconds ? withoutShortGaps(threads.values) : [],
  );
  const lastActive =
    all.start === null ? Number.NEGATIVE_INFINITY : all.start + sums.findLastIndex((sum) => sum > 0);
  const kept = bucketsOf(all, there).flatMap((bucket) => {
    const present = valueIn(there, bucket);
    if (present === null && !valueIn(all, bucket)) return [];
    const isOpen = settled !== null && (bucket + 1) * stepSeconds > settled;
    return [{ bucket, present, isKnown: !isOpen || bucket <= lastActive }];
  });
  const pick = (values: readonly number[]) =>
    kept.map(({ bucket, isKnown }) => (isKnown ? (valueIn({ ...all, values }, bucket) ?? 0) : null));
  const areas = areasOf(functions, otherThreads, pick);
  const busy = pick(sums);
  const present = kept.map((one) => one.present);
  return {
    ...laneBase(areas.length),
    whole: { layer: "threads", rest: settled === null ? "idle or failed" : "idle or not ended" },
    times: kept.map(({ bucket }) => bucket * stepSeconds),
    stepSeconds,
    layers: [
      ...areas,
      {
        id: "busy",
        label: "all functions",
        colour: "--text-2",
        values: busy,
        draw: "line",
        isUnlisted: true,
      },
      { id: "threads", label: "threads", colour: "--text", values: present, draw: "steps" },
    ],
    max: roundMax(Math.max(largest(busy) ?? 0, largest(present) ?? 0)),
    settledUntil: settled,
  };
}

function areasOf(
  functions: Activity["functions"],
  otherThreads: readonly number[],
  pick: (values: readonly number[]) => (number | null)[],
): Layer[] {
  const colours = functionTokens(functions.map(({ prefix }) => prefix));
  const areas = functions.map(
    ({ prefix, threads }): Layer => ({
      id: `of-${prefix}`,
      label: prefix,
      colour: colours.get(prefix) ?? OTHERS,
      values: pick(threads),
      draw: "area",
      isNamed: true,
    }),
  );
  if (otherThreads.some((value) => value > 0))
    areas.push({ id: "others", label: "others", colour: OTHERS, values: pick(otherThreads), draw: "area" });
  return areas;
}

const LEAST_HEIGHT = 110;
const LEGEND_LINE = 17;
/** The lines of the legend beside those of the areas: the title, the note, the threads and the rest of them. */
const OTHER_LINES = 4;

/** Returns the part of the lane that does not depend on its values. The plot is as high as its legend. */
function laneBase(areas: number) {
  return {
    id: FUNCTIONS_LANE.id,
    title: "Threads",
    kind: "plot",
    note: "in tasks that succeeded",
    height: Math.max(LEAST_HEIGHT, (areas + OTHER_LINES) * LEGEND_LINE),
    main: "busy",
    empty: "No data in this part",
    format: threadsText,
    hasSteps: true,
  } as const;
}

/** Returns a number of threads. One that is not 0 never reads as 0. */
function threadsText(value: number): string {
  return value > 0 && value < 0.005 ? "<\u00a00.01" : threeDigits(value);
}

/** Returns the lane with a sentence in the place of the plot. */
export function emptyLane(text: string): PlotLane {
  return { ...laneBase(0), times: [], stepSeconds: INTERVAL_SECONDS, layers: [], max: 1, empty: text };
}

/** Activity is reported in hundredths of a second for each interval: less may be rounded to nothing. */
const LEAST_COMPUTE_SECONDS = 0.1;

/** Returns the reason why no activity of a cluster is stored. */
export function reasonWithout(cluster: WithoutActivity, isLive: boolean): string {
  const receipt = receiptOf(cluster, "TASKS");
  if (receipt?.accepted === false) return "The account refuses data about tasks";
  if ((receipt?.withheld ?? 0) > 0 || (receipt?.dropped ?? 0) > 0)
    return "The account refused data about tasks while this cluster ran";
  const { tasksSucceeded, computeSeconds } = cluster.totals;
  if (tasksSucceeded === 0) {
    const isKnown = receipt !== undefined && receipt.sent !== null;
    return isKnown ? "No task has succeeded" : "Not reported";
  }
  if (cluster.taskGroups.totalCount === 0) return "No longer stored: older than the account keeps it";
  if (computeSeconds < LEAST_COMPUTE_SECONDS) return "The tasks were too short to be drawn";
  return isLive
    ? "Not reported yet; older versions of Galvo do not report it"
    : "Not reported: by an older version of Galvo, or an imported file";
}

/** Returns the lane's values as a table that leaves the page, with the exact times of the buckets. */
export function functionSheet({ layers, times, stepSeconds }: PlotLane): Sheet {
  return {
    head: [`start of ${stepSeconds} s (UTC)`, ...layers.map(({ label }) => label)],
    rows: times.map((at, i) => [iso(at), ...layers.map(({ values }) => values[i] ?? null)]),
  };
}
