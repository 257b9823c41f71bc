import type { OverviewUserDaysQuery } from "@/data/gql/graphql.ts";

export type UsageRow = NonNullable<OverviewUserDaysQuery["viewer"]["account"]["usageTable"]>[number];

export const MEASURES = ["compute", "cluster", "cost", "errors"] as const;
export type Measure = (typeof MEASURES)[number];

/** The identifiers of rows that are no user's own. */
export const FORMER = "former";
export const OTHERS = "others";

export interface UserRow {
  id: string;
  name: string;
  byDay: Map<string, number>;
  total: number;
}

/** The measure by user and day. Rows, columns and the total are sums of the same cells. */
export interface UserDays {
  users: UserRow[];
  days: readonly string[];
  byDay: Map<string, number>;
  total: number;
  /** The number of users before the smaller ones were summed. */
  userCount: number;
}

/** Returns the currency of all costs. Null if there are none, or several that cannot be added. */
export function onlyCurrency(rows: readonly UsageRow[]): string | null {
  const found = new Set(rows.flatMap(({ usage }) => usage?.costs.map(({ currency }) => currency) ?? []));
  const [first] = found;
  return found.size === 1 && first !== undefined ? first : null;
}

function cellValue({ usage }: UsageRow, measure: Measure): number {
  if (!usage) return 0;
  switch (measure) {
    case "compute":
      return usage.computeSeconds;
    case "cluster":
      return usage.threadSeconds;
    case "cost":
      return usage.costs.reduce((sum, { amount }) => sum + amount, 0);
    case "errors":
      return usage.errors;
  }
}

function add(sums: Map<string, number>, key: string, value: number): void {
  sums.set(key, (sums.get(key) ?? 0) + value);
}

/**
 * Returns the measure of the users on these days, the largest user first. At most `most` rows: the last one is
 * the sum of all smaller users.
 */
export function userDays(
  rows: readonly UsageRow[],
  days: readonly string[],
  measure: Measure,
  most = 20,
): UserDays {
  const shownDays = new Set(days);
  const users = new Map<string, UserRow>();
  for (const row of rows) {
    if (!row.day || !shownDays.has(row.day)) continue;
    const id = row.user?.id ?? FORMER;
    const user = users.get(id) ?? {
      id,
      name: row.user?.name ?? "Former members",
      byDay: new Map<string, number>(),
      total: 0,
    };
    const value = cellValue(row, measure);
    add(user.byDay, row.day, value);
    user.total += value;
    users.set(id, user);
  }
  const sorted = [...users.values()].sort((a, b) => b.total - a.total || a.name.localeCompare(b.name));
  const limited = sorted.length > most ? withOthers(sorted, most - 1) : sorted;
  const byDay = new Map<string, number>();
  let total = 0;
  for (const user of limited) {
    for (const [day, value] of user.byDay) add(byDay, day, value);
    total += user.total;
  }
  return { users: limited, days, byDay, total, userCount: sorted.length };
}

function withOthers(sorted: readonly UserRow[], kept: number): UserRow[] {
  const rest = sorted.slice(kept);
  const others: UserRow = { id: OTHERS, name: `${rest.length} others`, byDay: new Map(), total: 0 };
  for (const user of rest) {
    for (const [day, value] of user.byDay) add(others.byDay, day, value);
    others.total += user.total;
  }
  return [...sorted.slice(0, kept), others];
}

/** Returns the fewest largest users, at most three, that have half of the total together, and their share. */
export function mainUsers({ users, total }: UserDays): { names: string[]; share: number } | null {
  if (total <= 0) return null;
  const names: string[] = [];
  let sum = 0;
  for (const user of users.slice(0, 3)) {
    if (sum >= total / 2 || user.total <= 0 || user.id === OTHERS) break;
    names.push(user.name);
    sum += user.total;
  }
  return names.length === 0 ? null : { names, share: sum / total };
}

/** Returns the names as one subject: `ines, batch-bot and priya`. */
export function joinNames(names: readonly string[]): string {
  if (names.length < 2) return names.join("");
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
