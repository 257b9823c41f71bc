import { day } from "@/format/time.ts";
import { type Interval, intervalLimits } from "@/routes/search.ts";
import type { Range } from "@/routes/search_types.ts";

/** Whole days in UTC, as the usage of the account is kept. `to` is the day after the last one. */
export interface Days {
  /** Null for all days since the account was created. */
  from: string | null;
  to: string;
  /** The first day of the period of the same length before. Null if there is none to compare with. */
  before: string | null;
  /** The number of days. Null for all. */
  count: number | null;
  words: string;
}

/** The ranges of pages that show whole days. */
export const DAY_RANGES = ["7d", "28d", "90d", "all"] as const;
export type DayRange = (typeof DAY_RANGES)[number];
export const DEFAULT_RANGE: DayRange = "28d";

export const RANGE_NAMES: Record<DayRange, string> = {
  "7d": "Last 7 days",
  "28d": "Last 28 days",
  "90d": "Last 90 days",
  all: "All days",
};

const COUNTS: Record<DayRange, number | null> = { "7d": 7, "28d": 28, "90d": 90, all: null };
const DAY = 86_400_000;

/** Returns the range of the address, or the default for one that is shorter than a day. */
export function dayRange(range: Range | Interval | undefined): DayRange | Interval {
  if (range?.includes("/")) return range as Interval;
  return DAY_RANGES.find((known) => known === range) ?? DEFAULT_RANGE;
}

/** Returns the range on the button of its menu. */
export function rangeName(range: DayRange | Interval): string {
  const limits = intervalLimits(range);
  if (!limits) return RANGE_NAMES[range as DayRange];
  const last = day(limits.to - 1);
  return limits.from === null ? `Until ${last}` : `${day(limits.from)} – ${last}`;
}

/** Returns the days as a range that stays the same tomorrow. */
export function fixedRange({ from, to }: Days): Interval {
  return `${from ?? ".."}/${plusDays(to, -1)}`;
}

/** Returns the day in UTC: `2026-11-24`. */
export function isoDay(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

/** Returns the day that is `days` later. */
export function plusDays(day: string, days: number): string {
  return isoDay(Date.parse(day) + days * DAY);
}

/** Returns the days of a range. One that is not an interval ends with the day of `now`. */
export function daysOf(range: DayRange | Interval, now: number): Days {
  const limits = intervalLimits(range);
  const to = plusDays(isoDay(limits ? limits.to - 1 : now), 1);
  const count = limits ? wholeDays(limits.from, to) : COUNTS[range as DayRange];
  if (count === null) {
    const words = limits ? `all days until ${day(limits.to - 1)}` : "all days";
    return { from: null, to, before: null, count, words };
  }
  return {
    from: plusDays(to, -count),
    to,
    before: plusDays(to, -2 * count),
    count,
    words: count === 1 ? "one day" : `${count} days`,
  };
}

function wholeDays(from: number | null, to: string): number | null {
  return from === null ? null : (Date.parse(to) - Date.parse(isoDay(from))) / DAY;
}

/** Returns the days from `from` to the one before `to`, in their order. */
export function daysBetween(from: string, to: string): string[] {
  const days: string[] = [];
  for (let day = from; day < to; day = plusDays(day, 1)) days.push(day);
  return days;
}
