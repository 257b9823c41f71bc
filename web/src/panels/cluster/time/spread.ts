import { ACTIVITIES, type Activity, activityOf } from "@/charts/colour.ts";
import type { ClusterTimeQuery } from "@/data/gql/graphql.ts";
import type { Sheet } from "@/panels/take_away/csv.ts";

export type FineTable = NonNullable<ClusterTimeQuery["viewer"]["account"]["fineMetrics"]>;

/** A function's part of the whole, by what Dask measured. */
export interface FunctionTime {
  function: string;
  total: number;
  byActivity: Map<Activity, number>;
  /** Dask's own names, the largest value first. */
  measured: { name: string; value: number }[];
}

/** The time outside of tasks, which is in no sum. */
export interface Beside {
  name: string;
  value: number;
}

export interface Spread {
  functions: FunctionTime[];
  total: number;
  beside: Beside[];
}

/** The name of the time whose function is not known. */
export const UNATTRIBUTED = "not attributed to a function";

/** Groups the rows by function. The functions' totals add up to `total`, the tasks' part of the table. */
export function spread(table: FineTable): Spread {
  const functions = new Map<string, FunctionTime>();
  const beside = new Map<string, number>();
  let total = 0;
  for (const { key, value } of table.rows) {
    const activity = key.activity ?? "other";
    if (key.part === "OUTSIDE_TASKS") beside.set(activity, (beside.get(activity) ?? 0) + value);
    if (key.part !== "TASKS") continue;
    const name = key.function ?? UNATTRIBUTED;
    const entry: FunctionTime = functions.get(name) ?? {
      function: name,
      total: 0,
      byActivity: new Map(),
      measured: [],
    };
    functions.set(name, entry);
    const kind = activityOf(activity);
    entry.total += value;
    entry.byActivity.set(kind, (entry.byActivity.get(kind) ?? 0) + value);
    entry.measured.push({ name: activity, value });
    total += value;
  }
  for (const { measured } of functions.values()) measured.sort((a, b) => b.value - a.value);
  return {
    functions: [...functions.values()].sort((a, b) => b.total - a.total),
    total,
    beside: [...beside].map(([name, value]) => ({ name, value })).sort((a, b) => b.value - a.value),
  };
}

const MOST = 7;

/** Returns the largest functions and, if there are more, the sum of the others. */
export function withOthers(functions: readonly FunctionTime[]): FunctionTime[] {
  if (functions.length <= MOST + 1) return [...functions];
  const others = functions.slice(MOST);
  const byActivity = new Map<Activity, number>();
  for (const activity of ACTIVITIES) {
    const sum = others.reduce((value, one) => value + (one.byActivity.get(activity) ?? 0), 0);
    if (sum > 0) byActivity.set(activity, sum);
  }
  const total = others.reduce((value, one) => value + one.total, 0);
  return [
    ...functions.slice(0, MOST),
    { function: `${others.length} others`, total, byActivity, measured: [] },
  ];
}

/** Returns the rows under Dask's own names, as a table that leaves the page. */
export function fineSheet({ rows, unit }: FineTable): Sheet {
  return {
    head: ["part", "function", "activity", unit],
    rows: rows.map(({ key, value }) => [key.part, key.function, key.activity, value]),
  };
}
