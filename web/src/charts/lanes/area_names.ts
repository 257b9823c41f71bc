import { position } from "./scale.ts";
import type { PlotLane, TimeRange } from "./types.ts";

/** The room that a name needs above and below its middle, together. */
export const NAME_PIXELS = 20;
/** A longer name is cut off at its end. */
export const MOST_NAME_PIXELS = 150;

/** A name on its area, by the position of its middle in pixels. */
export interface AreaName {
  id: string;
  label: string;
  x: number;
  y: number;
}

interface Column {
  from: number;
  to: number;
  /** The edges of the area, in pixels from the upper end of the plot. */
  top: number;
  bottom: number;
}

/**
 * Returns the names that fit within their areas, each where its area is the highest. A name that fits never lies on
 * another area, and so on no other name.
 */
export function areaNames(
  lane: PlotLane,
  shown: TimeRange,
  width: number,
  widthOf: (label: string) => number,
): AreaName[] {
  const names: AreaName[] = [];
  const sums = new Float64Array(lane.times.length);
  for (const { id, label, draw, isNamed, values } of lane.layers) {
    if (draw !== "area") continue;
    const columns = lane.times.map((at, i): Column | null => {
      const value = values[i] ?? null;
      const from = Math.max(0, position(at, shown) * width);
      const to = Math.min(width, position(at + lane.stepSeconds, shown) * width);
      const lower = sums[i] ?? 0;
      const y = (sum: number) => (1 - sum / lane.max) * lane.height;
      sums[i] = lower + (value ?? 0);
      return value === null || to <= from ? null : { from, to, top: y(lower + value), bottom: y(lower) };
    });
    const place = isNamed && highest(columns, Math.min(widthOf(label), MOST_NAME_PIXELS));
    if (place) names.push({ id, label, ...place });
  }
  return names;
}

/** Returns the middle of the highest place of the width, and of equally high ones the one in their middle. */
function highest(columns: readonly (Column | null)[], width: number): { x: number; y: number } | null {
  let best = NAME_PIXELS;
  let found: { x: number; y: number }[] = [];
  columns.forEach((first, start) => {
    if (!first) return;
    let { top, bottom, to } = first;
    for (let i = start + 1; to - first.from < width; i++) {
      const next = columns[i];
      // A gap ends the area.
      if (!next || next.from > to + 1) return;
      top = Math.max(top, next.top);
      bottom = Math.min(bottom, next.bottom);
      to = next.to;
    }
    const room = bottom - top;
    if (room < best - EQUAL_PIXELS) return;
    if (room > best + EQUAL_PIXELS) {
      best = room;
      found = [];
    }
    found.push({ x: (first.from + to) / 2, y: (top + bottom) / 2 });
  });
  return found[found.length >> 1] ?? null;
}

const EQUAL_PIXELS = 0.01;
