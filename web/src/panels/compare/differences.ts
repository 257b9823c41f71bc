import {
  ACTIVITY_NAMES,
  ACTIVITY_TOKENS,
  type Activity,
  activityOf,
  isHatched,
  type Token,
} from "@/charts/colour.ts";
import type { Difference } from "@/charts/waterfall/waterfall.tsx";
import type { CompareProfileQuery, CompareQuery } from "@/data/gql/graphql.ts";
import { bytes } from "@/format/bytes.ts";
import { counted } from "@/format/number.ts";

export type Comparison = NonNullable<CompareQuery["viewer"]["account"]["compare"]>;
type Row = Comparison["rows"][number];
type Environment = Comparison["environment"];
export type ProfileComparison = NonNullable<
  NonNullable<CompareProfileQuery["viewer"]["account"]["compare"]>["profile"]
>;

/** Returns the activity of a row. Null for task time that was measured beyond the threads' time. */
export function activityOfRow({ part, activity }: Row["key"]): Activity | null {
  switch (part) {
    case "IDLE":
      return "IDLE";
    case "NOT_COLLECTED":
      return "UNACCOUNTED";
    case "OVERCOUNTED":
      return null;
    default:
      return activityOf(activity ?? "other");
  }
}

/** Returns the parts of the difference by activity, the largest first. They add up to `delta`. */
export function byActivity({ rows, remaining: rest }: Pick<Comparison, "rows" | "remaining">): Difference[] {
  const sums = new Map<Activity | null, number>();
  for (const { key, delta } of rows) {
    const activity = activityOfRow(key);
    sums.set(activity, (sums.get(activity) ?? 0) + delta);
  }
  const parts = [...sums].map(([activity, delta]): Difference => {
    if (activity === null)
      return {
        id: "OVERCOUNTED",
        label: "Counted twice",
        delta,
        colour: "--act-unaccounted",
        isHatched: true,
      };
    return {
      id: activity,
      label: ACTIVITY_NAMES[activity],
      delta,
      colour: ACTIVITY_TOKENS[activity],
      isHatched: isHatched(activity),
      isOutlined: activity === "IDLE",
    };
  });
  if (rest.rows > 0) parts.push({ id: "rest", label: "smaller parts", delta: rest.delta, colour: "--fn-0" });
  return largestFirst(parts);
}

/** The functions that have a bar of their own. */
const MOST_FUNCTIONS = 6;

/** Returns the parts of the difference by function, the largest first. They add up to `delta`. */
export function byFunction({ rows, remaining: rest }: Pick<Comparison, "rows" | "remaining">): Difference[] {
  const sums = new Map<string, number>();
  for (const { key, delta } of rows) {
    const name = nameOfRow(key);
    sums.set(name, (sums.get(name) ?? 0) + delta);
  }
  const parts = largestFirst(
    [...sums].map(([name, delta]) => ({
      id: name,
      label: name,
      delta,
      colour: (delta > 0 ? "--more" : "--less") as Token,
    })),
  );
  const others = parts.slice(MOST_FUNCTIONS);
  if (others.length === 0 && rest.rows === 0) return parts;
  const delta = others.reduce((sum, part) => sum + part.delta, rest.delta);
  return [...parts.slice(0, MOST_FUNCTIONS), { id: "rest", label: "others", delta, colour: "--fn-0" }];
}

function largestFirst(parts: Difference[]): Difference[] {
  return parts.filter(({ delta }) => delta !== 0).sort((a, b) => Math.abs(b.delta) - Math.abs(a.delta));
}

/** Returns the name of a row's function, or of what it is instead. */
export function nameOfRow({ part, function: name }: Row["key"]): string {
  if (name !== null) return name;
  return part === "IDLE" ? "no task" : part === "NOT_COLLECTED" ? "not measured" : "no function";
}

/** A difference of the software or the size of the clusters. */
export interface Changed {
  name: string;
  from: string;
  to: string;
}

const NONE = "none";
const versions = (values: readonly string[]) => values.join(", ") || NONE;

/** Returns everything that differs: the code, the software and the size. */
export function changesOf(environment: Environment): Changed[] {
  const { codeChanged, python, os, machine, baseSize, headSize } = environment;
  const values = [python, os, machine].flatMap((change) => change ?? []);
  const packages = [...environment.changed, ...environment.added, ...environment.removed];
  const sizes: [string, string, string][] = [
    ["workers at most", counted(baseSize.peakWorkers, "worker"), counted(headSize.peakWorkers, "worker")],
    ["threads at most", counted(baseSize.peakThreads, "thread"), counted(headSize.peakThreads, "thread")],
    ["threads of a worker", threads(baseSize.workerThreads), threads(headSize.workerThreads)],
    ["memory of a worker", limit(baseSize.workerMemoryLimit), limit(headSize.workerMemoryLimit)],
  ];
  return [
    ...(codeChanged ? [{ name: "code that called Dask", from: "", to: "differs" }] : []),
    ...[...values, ...packages].map(({ name, from, to }) => ({
      name,
      from: versions(from),
      to: versions(to),
    })),
    ...sizes.filter(([, from, to]) => from !== to).map(([name, from, to]) => ({ name, from, to })),
  ];
}

const threads = (value: number | null) => (value === null ? "unknown" : counted(value, "thread"));
const limit = (value: number | null) => (value === null ? "no limit, or unknown" : bytes(value));

/** The percentage points from which on a difference has the next colour. */
const POINTS = [0.6, 2, 5];

/** Returns the colour of a difference of shares, in percentage points: blue for less, orange for more. */
export function differenceToken(points: number): Token {
  const step = POINTS.filter((limit) => Math.abs(points) >= limit).length;
  if (step === 0) return "--flame-dask";
  return `--div-${points > 0 ? "more" : "less"}-${step}`;
}

/** Returns the share of a node in B minus its share in A, in percentage points. */
export function pointsOf(profile: ProfileComparison, node: number): number {
  const { baseTotal = 0, headTotal = 0 } = profile.nodes[node] ?? {};
  const share = (part: number, whole: number) => (whole > 0 ? (part / whole) * 100 : 0);
  return share(headTotal, profile.headSamples) - share(baseTotal, profile.baseSamples);
}
