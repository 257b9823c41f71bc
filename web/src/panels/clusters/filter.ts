import type { ClusterFilter, ClusterState, FlagKind } from "@/data/gql/graphql.ts";
import { day, period } from "@/format/time.ts";
import { type Interval, intervalLimits } from "@/routes/search.ts";
import type { ClustersSearch, Range } from "@/routes/search_types.ts";
import { STATE_NAMES } from "@/ui/state.tsx";
import { parseCost, parseDuration, parsePackage, parseTag } from "./filter_text.ts";
import { FLAG_NAMES, flagKinds } from "./flags.ts";

/** A user who can be filtered by. The address has the name, the server wants the identifier. */
export interface KnownUser {
  id: string;
  name: string;
}

export const RANGE_NAMES: Record<Range, string> = {
  "24h": "last 24 hours",
  "7d": "last 7 days",
  "28d": "last 28 days",
  "90d": "last 90 days",
  all: "at any time",
};

const RANGE_HOURS: Record<Exclude<Range, "all">, number> = { "24h": 24, "7d": 168, "28d": 672, "90d": 2160 };
const ROUNDED_MS = 600_000;

/**
 * Returns the start of a range. It is rounded down to ten minutes, so that a page that is opened again has the
 * same variables, and finds its rows in the cache.
 */
export function rangeStart(range: Range | undefined, now: number): string | null {
  if (range === undefined || range === "all") return null;
  const start = now - RANGE_HOURS[range] * 3_600_000;
  return new Date(Math.floor(start / ROUNDED_MS) * ROUNDED_MS).toISOString();
}

/** Returns the period in which the clusters started. Null for any time. */
function startedIn(range: Range | Interval | undefined, now: number): ClusterFilter["startedIn"] | null {
  const limits = range === undefined ? null : intervalLimits(range);
  if (!limits) {
    const from = rangeStart(range as Range | undefined, now);
    return from === null ? null : { from };
  }
  const { from, to } = limits;
  return { from: from === null ? null : new Date(from).toISOString(), to: new Date(to).toISOString() };
}

/** Returns the period as one that stays the same later. Undefined for any time. */
export function fixedStart(range: ClustersSearch["started"], now: number): Interval | undefined {
  if (range?.includes("/")) return range as Interval;
  const from = rangeStart(range as Range | undefined, now);
  const second = (time: string) => `${time.slice(0, 19)}Z`;
  return from === null ? undefined : `${second(from)}/${second(new Date(now).toISOString())}`;
}

function startText(range: Range | Interval): string {
  const limits = intervalLimits(range);
  if (!limits) return RANGE_NAMES[range as Range];
  // The last second of a day belongs to it.
  const last = range.endsWith("Z") ? limits.to : limits.to - 1000;
  return `${limits.from === null ? `until ${day(last)}` : period(limits.from, last)} UTC`;
}

/** The states of the search part. Empty for all. */
export function statesOf(search: ClustersSearch): ClusterState[] {
  return (search.state?.split(",") ?? []) as ClusterState[];
}

/** Returns the server's filter. The user is left out if nobody of this name is known. */
export function clusterFilter(
  search: ClustersSearch,
  users: readonly KnownUser[],
  now: number,
): ClusterFilter {
  const filter: ClusterFilter = {};
  const states = statesOf(search);
  if (states.length > 0) filter.states = states;
  const started = startedIn(search.started, now);
  if (started) filter.startedIn = started;
  if (search.q) filter.search = search.q.slice(0, 200);
  const user = users.find(({ name }) => name === search.user);
  if (user) filter.users = [user.id];
  if (search.tag) filter.tags = { all: search.tag.map(parseTag) };
  const kinds = flagKinds(search.flag);
  if (kinds.length > 0) filter.flags = kinds;
  const cost = search.cost === undefined ? null : parseCost(search.cost);
  if (cost) filter.minCost = cost;
  if (search.errors) filter.hasErrors = search.errors === "yes";
  const wanted = search.package === undefined ? null : parsePackage(search.package);
  if (wanted) filter.package = wanted;
  const idle = search.idle === undefined ? null : parseDuration(search.idle);
  if (idle !== null) filter.idleForSeconds = idle;
  const lasted = search.lasted === undefined ? null : parseDuration(search.lasted);
  if (lasted !== null) filter.minDurationSeconds = lasted;
  return filter;
}

/** A filter that is shown, and the search part without it. */
export interface ShownFilter {
  id: string;
  name: string;
  value: string;
  without: ClustersSearch;
}

/** Returns the filters in the order of the bar, without the states, which are tabs. */
export function shownFilters(search: ClustersSearch): ShownFilter[] {
  const shown: ShownFilter[] = [];
  const add = (id: keyof ClustersSearch, name: string, value: string | undefined) => {
    if (value !== undefined) shown.push({ id, name, value, without: omit(search, id) });
  };
  add("started", "Started", search.started && startText(search.started));
  add("q", "Name contains", search.q);
  add("user", "User", search.user);
  for (const tag of search.tag ?? []) {
    const tags = search.tag?.filter((one) => one !== tag) ?? [];
    const without = tags.length > 0 ? { ...search, tag: tags } : omit(search, "tag");
    shown.push({ id: `tag ${tag}`, name: "Tag", value: tag, without });
  }
  add("flag", "Flag", namesOf(flagKinds(search.flag)));
  add("cost", "Cost at least", search.cost);
  add("errors", "Errors", search.errors);
  add("package", "Package", search.package);
  add("idle", "Idle for at least", search.idle);
  add("lasted", "Lasted at least", search.lasted);
  return shown;
}

function namesOf(kinds: readonly FlagKind[]): string | undefined {
  return kinds.length > 0 ? kinds.map((kind) => FLAG_NAMES[kind]).join(" or ") : undefined;
}

/** The tabs of states as a filter, for the message that no cluster passes. */
export function shownStates(search: ClustersSearch): ShownFilter[] {
  const states = statesOf(search);
  if (states.length === 0) return [];
  const value = states.map((state) => STATE_NAMES[state]).join(" or ");
  return [{ id: "state", name: "State", value, without: omit(search, "state") }];
}

function omit(search: ClustersSearch, id: keyof ClustersSearch): ClustersSearch {
  const { [id]: _, ...rest } = search;
  return rest;
}
