import type {
  ErrorGroupStatus,
  ErrorGroupTriageStatus,
  ErrorOrigin,
  TrendBucket,
} from "@/data/gql/graphql.ts";
import type { Days } from "@/panels/range/range.ts";
import type { ErrorsSearch } from "@/routes/search_types.ts";

export const STATUS_TABS = ["open", "resolved", "ignored"] as const;
export type StatusTab = (typeof STATUS_TABS)[number];

const STATUSES: Record<StatusTab, ErrorGroupStatus[]> = {
  open: ["OPEN", "REGRESSED"],
  resolved: ["RESOLVED"],
  ignored: ["IGNORED"],
};

/** The variables that the list and its counts share. */
export interface GroupFilter {
  origin: ErrorOrigin | null;
  types: string[] | null;
  in: { from: string | null; to: string };
}

export function statusTab(search: ErrorsSearch): StatusTab {
  return STATUS_TABS.find((tab) => tab === search.status) ?? "open";
}

export function statusesOf(tab: StatusTab): ErrorGroupStatus[] {
  return STATUSES[tab];
}

const ORIGINS: readonly ErrorOrigin[] = ["USER", "DASK", "UNKNOWN"];

export const ORIGIN_NAMES: Record<ErrorOrigin, string> = {
  USER: "own code",
  DASK: "Dask",
  UNKNOWN: "origin unknown",
};

export function groupFilter(search: ErrorsSearch, days: Days): GroupFilter {
  return {
    origin: ORIGINS.find((origin) => origin === search.origin) ?? null,
    types: search.type ?? null,
    in: { from: days.from === null ? null : `${days.from}T00:00:00Z`, to: `${days.to}T00:00:00Z` },
  };
}

/** Returns the periods of the trend: days, or the last 30 weeks if the range has no start. */
export function trendOf(days: Days): {
  trendFrom: string | null;
  trendTo: string;
  bucket: TrendBucket;
} {
  const trendTo = `${days.to}T00:00:00Z`;
  if (days.from === null) return { trendFrom: null, trendTo, bucket: "WEEK" };
  return { trendFrom: `${days.from}T00:00:00Z`, trendTo, bucket: "DAY" };
}

/** The time for which a group is new, in milliseconds. */
export const NEW_FOR_MS = 86_400_000;

/** Returns true for open groups whose first error is at most a day old. */
export function isNew(group: { status: ErrorGroupStatus; firstSeenAt: string }, now: number): boolean {
  return group.status === "OPEN" && now - Date.parse(group.firstSeenAt) < NEW_FOR_MS;
}

/** Returns the new groups before the others, in the order of the server otherwise. */
export function newFirst<Group extends { status: ErrorGroupStatus; firstSeenAt: string }>(
  groups: readonly Group[],
  now: number,
): Group[] {
  return groups.toSorted((a, b) => Number(isNew(b, now)) - Number(isNew(a, now)));
}

/** Returns the changes of status that make sense now. The first one is the main one. */
export function nextStatuses(status: ErrorGroupStatus): ErrorGroupTriageStatus[] {
  return status === "OPEN" || status === "REGRESSED" ? ["RESOLVED", "IGNORED"] : ["OPEN"];
}
