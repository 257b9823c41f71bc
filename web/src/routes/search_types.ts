import type { ClusterState, FlagKind } from "@/data/gql/graphql.ts";
import {
  choiceParam,
  choicesParam,
  type Interval,
  intervalParam,
  listParam,
  textParam,
  timeParam,
} from "./search.ts";

/** The search parts of the pages. Unknown values are dropped. */

/** Returns the entries that have a value. */
function present<T extends object>(search: T): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined)) as never;
}

type Raw = Record<string, unknown>;

export const RANGES = ["24h", "7d", "28d", "90d", "all"] as const;
/** A period that ends now. */
export type Range = (typeof RANGES)[number];

function rangeParam(value: unknown): Range | Interval | undefined {
  return choiceParam(value, RANGES) ?? intervalParam(value);
}

export interface OverviewSearch {
  /** The thread time is that of all days since the account was created. */
  usage?: "all";
  range?: Range | Interval;
  by?: string;
  user?: string;
  from?: string;
  to?: string;
}

export function overviewSearch(raw: Raw): OverviewSearch {
  return present({
    usage: choiceParam(raw.usage, ["all"]),
    range: rangeParam(raw.range),
    by: textParam(raw.by),
    user: textParam(raw.user),
    from: textParam(raw.from),
    to: textParam(raw.to),
  });
}

export const STATES: readonly ClusterState[] = ["STARTING", "RUNNING", "IDLE", "CLOSING", "CLOSED", "LOST"];

export interface ClustersSearch {
  /** States, separated by commas. */
  state?: string;
  started?: Range | Interval;
  q?: string;
  user?: string;
  tag?: string[];
  flag?: string[];
  cost?: string;
  errors?: "yes" | "no";
  package?: string;
  /** The least time without work, and the least life: `30m`, `2h`. */
  idle?: string;
  lasted?: string;
  /** The server's order, with `-` before it for the largest first. */
  sort?: string;
  cols?: string;
}

export function clustersSearch(raw: Raw): ClustersSearch {
  return present({
    state: choicesParam(raw.state, STATES)?.join(","),
    started: rangeParam(raw.started),
    q: textParam(raw.q),
    user: textParam(raw.user),
    tag: listParam(raw.tag),
    flag: listParam(raw.flag) as FlagKind[] | undefined,
    cost: textParam(raw.cost),
    errors: choiceParam(raw.errors, ["yes", "no"]),
    package: textParam(raw.package),
    idle: textParam(raw.idle),
    lasted: textParam(raw.lasted),
    sort: textParam(raw.sort),
    cols: textParam(raw.cols),
  });
}

export interface ErrorsSearch {
  status?: string;
  origin?: string;
  type?: string[];
  range?: Range | Interval;
  q?: string;
}

export function errorsSearch(raw: Raw): ErrorsSearch {
  return present({
    status: textParam(raw.status),
    origin: textParam(raw.origin),
    type: listParam(raw.type),
    range: rangeParam(raw.range),
    q: textParam(raw.q),
  });
}

export interface ClusterSearch {
  /** The brushed period, in ISO 8601. It stays while the tabs change. */
  from?: string;
  to?: string;
  by?: string;
  unit?: string;
  /** The opened row of the tab. */
  open?: string;
  level?: string;
  source?: string;
  worker?: string;
  /** The order of the log lines, the newest first unless it is given. */
  order?: "oldest";
  q?: string;
  /** The lanes that are shown, separated by commas. */
  lanes?: string;
  /** The profile is a table. */
  table?: "yes";
  /** The time line is a table. */
  timeline?: "table";
  /** The time line shows only the brushed period. */
  zoom?: "yes";
}

export function clusterSearch(raw: Raw): ClusterSearch {
  const from = timeParam(raw.from);
  const to = timeParam(raw.to);
  const isRange = from !== undefined && to !== undefined && from < to;
  return present({
    from: isRange ? new Date(from).toISOString() : undefined,
    to: isRange ? new Date(to).toISOString() : undefined,
    by: textParam(raw.by),
    unit: textParam(raw.unit),
    open: textParam(raw.open),
    level: textParam(raw.level),
    source: textParam(raw.source),
    worker: textParam(raw.worker),
    order: choiceParam(raw.order, ["oldest"]),
    q: textParam(raw.q),
    lanes: textParam(raw.lanes),
    table: choiceParam(raw.table, ["yes"]),
    timeline: choiceParam(raw.timeline, ["table"]),
    zoom: isRange ? choiceParam(raw.zoom, ["yes"]) : undefined,
  });
}

export interface CompareSearch {
  /** The numbers of the clusters: the base, and the one that is compared with it. */
  a?: string;
  b?: string;
  by?: string;
}

export function compareSearch(raw: Raw): CompareSearch {
  return present({ a: numberParam(raw.a), b: numberParam(raw.b), by: textParam(raw.by) });
}

function numberParam(value: unknown): string | undefined {
  const text = textParam(value);
  return text !== undefined && /^\d{1,16}$/.test(text) ? text : undefined;
}
