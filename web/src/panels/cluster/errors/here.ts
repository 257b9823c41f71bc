import type { ClusterErrorGroupsQuery, ClusterErrorsQuery } from "@/data/gql/graphql.ts";
import { count } from "@/format/number.ts";

export type ClusterError = NonNullable<ClusterErrorsQuery["cluster"]>["errors"]["nodes"][number];
export type ClusterErrorGroup = NonNullable<
  ClusterErrorGroupsQuery["viewer"]["account"]["errorGroups"]
>["nodes"][number];

/** The identifier of the row with the errors that belong to no group. */
export const UNGROUPED = "ungrouped";

/** A period in ISO 8601, inclusive at its start and exclusive at its end. */
export interface Period {
  from: string;
  to: string;
}

/** The errors of one group on this cluster, as far as they are loaded. */
export interface GroupHere<Group, Occurrence> {
  id: string;
  /** Null for errors that were stored before errors were grouped, and for a group that did not load. */
  group: Group | null;
  /** The newest one first. */
  errors: Occurrence[];
  /** True if older errors, which are not loaded, may belong to the group and to the period. */
  isLeast: boolean;
}

export type HereRow = GroupHere<ClusterErrorGroup, ClusterError>;

interface Grouped {
  at: string;
  group: { id: string } | null;
}

function isWithin(at: string, period: Period | null): boolean {
  if (!period) return true;
  const time = Date.parse(at);
  return time >= Date.parse(period.from) && time < Date.parse(period.to);
}

/** Returns true if errors of the period may be among those that are not loaded. */
export function mayMiss(
  errors: readonly { at: string }[],
  totalCount: number,
  period: Period | null,
): boolean {
  if (errors.length >= totalCount) return false;
  const oldest = errors.at(-1);
  return !period || !oldest || Date.parse(oldest.at) >= Date.parse(period.from);
}

/**
 * Returns the groups with their errors on this cluster, those with the newest error first. `errors` are the
 * newest ones of `totalCount`, the newest one first. Groups that certainly have no error in the period are left
 * out.
 */
export function groupsHere<Group extends { id: string }, Occurrence extends Grouped>(
  groups: readonly Group[],
  errors: readonly Occurrence[],
  totalCount: number,
  period: Period | null,
): GroupHere<Group, Occurrence>[] {
  const isLeast = mayMiss(errors, totalCount, period);
  const byGroup = new Map<string, Occurrence[]>(groups.map(({ id }) => [id, []]));
  for (const error of errors) {
    if (!isWithin(error.at, period)) continue;
    const id = error.group?.id ?? UNGROUPED;
    const own = byGroup.get(id);
    if (own) own.push(error);
    else byGroup.set(id, [error]);
  }
  const groupsById = new Map(groups.map((group) => [group.id, group]));
  return [...byGroup]
    .map(([id, own]) => ({ id, group: groupsById.get(id) ?? null, errors: own, isLeast }))
    .filter(({ errors: own }) => isLeast || own.length > 0)
    .toSorted((a, b) => newest(b) - newest(a));
}

function newest({ errors }: GroupHere<unknown, { at: string }>): number {
  // Groups whose errors are not loaded have older ones.
  return errors[0] ? Date.parse(errors[0].at) : 0;
}

/** Returns the row and the error that the address names: an error, or a group with its newest error. */
export function chosenHere<Row extends { id: string; errors: readonly { id: string }[] }>(
  rows: readonly Row[],
  open: string | undefined,
): { row: Row | null; error: Row["errors"][number] | null } {
  if (open !== undefined) {
    for (const row of rows) {
      if (row.id === open) return { row, error: row.errors[0] ?? null };
      const error = row.errors.find(({ id }) => id === open);
      if (error) return { row, error };
    }
  }
  return { row: null, error: null };
}

/** Returns the number of errors on this cluster. While errors are not loaded, it is a lower bound. */
export function hereText({
  errors,
  isLeast,
}: Pick<HereRow, "isLeast"> & { errors: readonly unknown[] }): string {
  if (!isLeast) return count(errors.length);
  return errors.length === 0 ? "older ones" : `${count(errors.length)} or more`;
}
