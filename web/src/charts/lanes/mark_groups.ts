import { position } from "./scale.ts";
import type { Mark, TimeRange } from "./types.ts";

/** Half of the width of a shape. */
const HALF_PIXELS = 8;
/** The least width of what a pointer or a finger hits. */
const TARGET_PIXELS = 24;
const DIGIT_PIXELS = 6;

/** Marks that would lie on each other. */
export interface MarkGroup {
  /** The place of the first one. */
  share: number;
  /** The worst one stands first. */
  marks: Mark[];
  /** The area that can be hit, in pixels from the start of the axis. */
  from: number;
  to: number;
}

interface Placed {
  x: number;
  marks: Mark[];
}

const SEVERITY: Record<Mark["kind"], number> = { death: 0, error: 1, flag: 2, event: 3 };
const bySeverity = (a: Mark, b: Mark) => SEVERITY[a.kind] - SEVERITY[b.kind] || a.at - b.at;

/** Returns the end of the shape and, for several marks, of their count. */
function endOf({ x, marks }: Placed): number {
  const digits = marks.length === 1 ? 0 : String(marks.length).length;
  return x + HALF_PIXELS + (digits > 0 ? 2 + digits * DIGIT_PIXELS : 0);
}

function inOrder(marks: readonly Mark[], { from, to }: TimeRange): Mark[] {
  return marks.filter(({ at }) => at >= from && at <= to).sort((a, b) => a.at - b.at);
}

/**
 * Joins marks whose shapes would overlap, and those of which one could not be hit alone: what is hit is as wide as
 * a finger needs, reaches over the own shape, and over no other one.
 */
export function groupMarks(marks: readonly Mark[], range: TimeRange, width: number): MarkGroup[] {
  const placed: Placed[] = [];
  for (const mark of inOrder(marks, range)) {
    placed.push({ x: position(mark.at, range) * width, marks: [mark] });
    while (joinLast(placed));
  }
  for (let i = 0, last = Number.NEGATIVE_INFINITY, groups: MarkGroup[] = []; ; i++) {
    const one = placed[i];
    if (!one) return groups;
    const next = (placed[i + 1]?.x ?? Number.POSITIVE_INFINITY) - HALF_PIXELS;
    const from = Math.max(last, Math.min(one.x - TARGET_PIXELS / 2, next - TARGET_PIXELS));
    const to = Math.max(from + TARGET_PIXELS, endOf(one));
    if (from <= one.x - HALF_PIXELS && to <= next) {
      groups.push({ share: one.x / width, marks: one.marks.sort(bySeverity), from, to });
      last = to;
      continue;
    }
    join(placed, nearer(placed, i));
    groups = [];
    i = -1;
    last = Number.NEGATIVE_INFINITY;
  }
}

/** Joins the last two if they overlap. */
function joinLast(placed: Placed[]): boolean {
  const last = placed.at(-1);
  const before = placed.at(-2);
  if (!last || !before || last.x - HALF_PIXELS >= endOf(before)) return false;
  join(placed, placed.length - 2);
  return true;
}

function join(placed: Placed[], index: number): void {
  const [first, second] = placed.slice(index, index + 2);
  if (first && second) placed.splice(index, 2, { x: first.x, marks: [...first.marks, ...second.marks] });
}

/** Returns the index of the first one of the two that are joined: the one at the index, and the nearer neighbour. */
function nearer(placed: readonly Placed[], index: number): number {
  const distance = (i: number) => (placed[i + 1]?.x ?? Number.POSITIVE_INFINITY) - (placed[i]?.x ?? 0);
  return index > 0 && distance(index - 1) <= distance(index) ? index - 1 : index;
}

/** Returns one mark for each pixel that has any, the worst one, with its place. */
export function markLines(marks: readonly Mark[], range: TimeRange, width: number): Map<number, Mark> {
  const lines = new Map<number, Mark>();
  for (const mark of inOrder(marks, range).sort(bySeverity)) {
    const pixel = Math.round(position(mark.at, range) * width);
    if (!lines.has(pixel)) lines.set(pixel, mark);
  }
  return lines;
}
