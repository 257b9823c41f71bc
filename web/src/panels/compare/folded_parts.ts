import { threadTimes } from "@/format/duration.ts";
import { count } from "@/format/number.ts";
import { activityOfRow, type Comparison, nameOfRow } from "./differences.ts";

/** A part of a difference, in seconds. */
export interface Part {
  id: string;
  name: string;
  activity: ReturnType<typeof activityOfRow> | "rest";
  /** Dask's own name of the activity. */
  measured: string;
  base: number | null;
  head: number | null;
  delta: number;
  /** The number of parts in it. */
  parts: number;
}

/** Returns every part, the largest first. Those beyond the server's answer are one part. */
export function allParts({ rows, remaining: rest }: Pick<Comparison, "rows" | "remaining">): Part[] {
  const parts: Part[] = rows.map(({ key, base, head, delta }) => ({
    id: `${key.part}\n${key.function}\n${key.activity}`,
    name: nameOfRow(key),
    activity: activityOfRow(key),
    measured: key.activity ?? key.part.toLowerCase(),
    base,
    head,
    delta,
    parts: 1,
  }));
  if (rest.rows > 0) parts.push(others(rest.rows, rest));
  return parts;
}

function others(parts: number, sums: Pick<Part, "base" | "head" | "delta">): Part {
  const { base, head, delta } = sums;
  return {
    id: "rest",
    name: `${count(parts)} others`,
    activity: "rest",
    measured: "",
    base,
    head,
    delta,
    parts,
  };
}

/** The share of all differences, in either direction, that the shown parts have. */
const SHOWN_SHARE = 0.95;
const MOST_PARTS = 20;

/** Returns the format of the parts. In the unit of their totals, most parts would read as 0. */
export function partTimes(parts: readonly Part[]): (seconds: number) => string {
  return threadTimes(Math.max(0, ...parts.flatMap(({ base, head }) => [base ?? 0, head ?? 0])));
}

/** Returns the parts by function and activity, of which Dask measures some in several ways. The largest first. */
function mergeParts(parts: readonly Part[]): Part[] {
  const found = new Map<string, Part>();
  for (const part of parts) {
    const key = part.activity === "rest" ? "rest" : `${part.name}\n${part.activity}`;
    const known = found.get(key);
    found.set(key, known ? addParts(known, part) : part);
  }
  const rank = ({ activity, delta }: Part) => (activity === "rest" ? -1 : Math.abs(delta));
  return [...found.values()].sort((a, b) => rank(b) - rank(a));
}

function addParts(a: Part, b: Part): Part {
  const sum = (x: number | null, y: number | null) => (x === null && y === null ? null : (x ?? 0) + (y ?? 0));
  return {
    ...a,
    measured: `${a.measured}, ${b.measured}`,
    base: sum(a.base, b.base),
    head: sum(a.head, b.head),
    delta: a.delta + b.delta,
  };
}

/**
 * Returns the large parts, and one with the sums of all others: those that read as 0 or less than the last digit,
 * and the smallest, which have a twentieth of all differences together.
 */
export function foldedParts(all: readonly Part[]): Part[] {
  const parts = mergeParts(all);
  const size = ({ delta }: Part) => Math.abs(delta);
  const enough = parts.reduce((sum, part) => sum + size(part), 0) * SHOWN_SHARE;
  const times = partTimes(all);
  let sum = 0;
  let shown = 0;
  for (const part of parts) {
    if (
      shown === MOST_PARTS ||
      sum >= enough ||
      !/^[1-9]|^0\.[1-9]/.test(times(size(part))) ||
      part.activity === "rest"
    )
      break;
    sum += size(part);
    shown += 1;
  }
  const folded = parts.slice(shown);
  // A line for a single part would take its room and say less.
  if (folded.length < 2) return parts;
  const total = (of: (part: Part) => number) => folded.reduce((all, part) => all + of(part), 0);
  const sums = {
    base: total(({ base }) => base ?? 0),
    head: total(({ head }) => head ?? 0),
    delta: total(({ delta }) => delta),
  };
  return [
    ...parts.slice(0, shown),
    others(
      total((part) => part.parts),
      sums,
    ),
  ];
}
