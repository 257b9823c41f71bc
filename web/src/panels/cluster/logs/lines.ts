import type { ClusterLogsQuery, ClusterLogsQueryVariables, LogSource } from "@/data/gql/graphql.ts";
import { clockSeconds, day } from "@/format/time.ts";
import type { ClusterSearch } from "@/routes/search_types.ts";

type Logs = NonNullable<ClusterLogsQuery["cluster"]>["logs"];

/** A log line with its position in the list, which identifies it. */
export type Line = Logs["edges"][number]["node"] & { cursor: string };

export const LEVELS = ["all", "info", "warning", "error"] as const;
export type Level = (typeof LEVELS)[number];

const SEVERE = ["ERROR", "CRITICAL"];
const LEVEL_NAMES: Record<Level, string[] | null> = {
  all: null,
  info: ["INFO", "WARNING", ...SEVERE],
  warning: ["WARNING", ...SEVERE],
  error: SEVERE,
};

export const SOURCES = ["all", "scheduler", "worker", "nanny"] as const;
export type Source = (typeof SOURCES)[number];

const SOURCE_NAMES: Record<Source, LogSource[] | null> = {
  all: null,
  scheduler: ["SCHEDULER"],
  worker: ["WORKER"],
  nanny: ["NANNY"],
};

/** The filter of the tab, as the address has it. */
export interface LogFilter {
  level: Level;
  source: Source;
  worker: string | null;
  match: string | null;
  period: { from: string; to: string } | null;
  isOldestFirst: boolean;
}

const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

/** Reads the filter. Values that the server would refuse are left out. */
export function logFilter(search: ClusterSearch): LogFilter {
  const { level, source, worker, q, from, to, order } = search;
  return {
    level: LEVELS.find((known) => known === level) ?? "all",
    source: SOURCES.find((known) => known === source) ?? "all",
    worker: worker && UUID.test(worker) ? worker : null,
    match: q ?? null,
    period: from && to ? { from, to } : null,
    isOldestFirst: order === "oldest",
  };
}

/** Returns true if lines may be left out for another reason than their text. */
export function isFiltered({ level, source, worker, period }: LogFilter): boolean {
  return level !== "all" || source !== "all" || worker !== null || period !== null;
}

const PAGE = 100;

/** Returns the variables that select lines. */
export function countVariables(id: string, { level, source, worker, period }: LogFilter) {
  return { id, levels: LEVEL_NAMES[level], sources: SOURCE_NAMES[source], worker, at: period };
}

/** Returns the variables of a page. The newest lines are read from the end of the server's list. */
export function pageVariables(id: string, filter: LogFilter) {
  return {
    ...countVariables(id, filter),
    match: filter.match,
    ...(filter.isOldestFirst ? { first: PAGE } : { last: PAGE }),
  } satisfies ClusterLogsQueryVariables;
}

/** Returns the cursor behind a page in the order of reading. Null at the end. */
export function nextCursor(logs: Logs | undefined, isOldestFirst: boolean): string | null {
  if (!logs) return null;
  const { hasNextPage, endCursor, hasPreviousPage, startCursor } = logs.pageInfo;
  if (isOldestFirst) return hasNextPage ? endCursor : null;
  return hasPreviousPage ? startCursor : null;
}

/** Returns the lines of the pages in the order of reading. The server lists each page from old to new. */
export function linesOf(pages: readonly (Logs | undefined)[], isOldestFirst: boolean): Line[] {
  return pages.flatMap((logs) => {
    const lines = (logs?.edges ?? []).map(({ cursor, node }) => ({ ...node, cursor }));
    return isOldestFirst ? lines : lines.toReversed();
  });
}

/** Returns the time of a line to the millisecond, with its day if the log covers several. */
export function lineTime(at: string, withDay: boolean): string {
  const milliseconds = String(Date.parse(at) % 1000).padStart(3, "0");
  const clock = `${clockSeconds(at)}.${milliseconds}`;
  return withDay ? `${day(at)}, ${clock}` : clock;
}

/** Returns true if the times are not of one day. */
export function coversDays(from: string, to: string): boolean {
  return from.slice(0, 10) !== to.slice(0, 10);
}

/** Returns the name of the process that wrote a line. */
export function processName({ source, worker, workerProcess }: Line): string {
  if (source === "SCHEDULER") return "scheduler";
  const name = workerProcess?.name ?? worker;
  if (source === "NANNY") return name === null ? "nanny, worker unknown" : `nanny of ${name}`;
  return name ?? "worker unknown";
}

/** The number of rows of a message that are shown at first. */
const MOST_ROWS = 10;

/** Returns the beginning of a long message and the number of rows that are hidden. */
export function beginning(message: string): { shown: string; hidden: number } {
  const rows = message.split("\n");
  // A button for one or two rows would take as much room as they do.
  if (rows.length <= MOST_ROWS + 2) return { shown: message, hidden: 0 };
  return { shown: rows.slice(0, MOST_ROWS).join("\n"), hidden: rows.length - MOST_ROWS };
}

/** The states of a log that may follow its cluster. */
export type Following = "ended" | "part" | "oldest" | "paused" | "reading" | "interrupted" | "on";

interface FollowFacts {
  isLive: boolean;
  filter: LogFilter;
  isWanted: boolean;
  /** False while the reader has scrolled away from the newest line. */
  isAtNewest: boolean;
  isConnected: boolean;
}

export function following(facts: FollowFacts): Following {
  if (!facts.isLive) return "ended";
  if (facts.filter.period) return "part";
  if (facts.filter.isOldestFirst) return "oldest";
  if (!facts.isWanted) return "paused";
  if (!facts.isAtNewest) return "reading";
  return facts.isConnected ? "on" : "interrupted";
}

export const FOLLOWING_TEXT: Record<Following, string> = {
  ended: "",
  part: "New lines are not shown: a part of the run is chosen.",
  oldest: "New lines come at the end of the list.",
  paused: "Paused. New lines are not shown.",
  reading: "New lines are not shown while you read older ones.",
  interrupted: "The live connection is interrupted: newer lines may exist.",
  on: "New lines are shown with each report of the cluster.",
};
