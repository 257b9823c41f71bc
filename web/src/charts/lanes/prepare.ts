import { position } from "./scale.ts";
import type { Layer, PlotLane, TimeRange } from "./types.ts";

type Values = readonly (number | null)[];

/** Returns the running sums of the layers. A gap in a layer counts as nothing, a gap in all of them stays. */
export function stacked(layers: readonly Values[]): (number | null)[][] {
  const length = layers[0]?.length ?? 0;
  const sums: (number | null)[] = new Array(length).fill(null);
  return layers.map((values) => {
    for (let i = 0; i < length; i++) {
      const value = values[i] ?? null;
      if (value !== null) sums[i] = (sums[i] ?? 0) + value;
    }
    return sums.slice();
  });
}

/** Reports may be late. Only a longer silence, in steps, is a gap. */
export const GAP_STEPS = 3;

export interface Gapped {
  times: number[];
  values: (number | null)[][];
}

/** Puts a gap where buckets are missing, so that no line crosses time without reports. */
export function withGaps(times: readonly number[], values: readonly Values[], stepSeconds: number): Gapped {
  const result: Gapped = { times: [...times], values: values.map((column) => [...column]) };
  for (let i = times.length - 1; i > 0; i--) {
    const last = times[i - 1] ?? 0;
    if ((times[i] ?? 0) - last <= stepSeconds * GAP_STEPS) continue;
    result.times.splice(i, 0, last + stepSeconds);
    for (const column of result.values) column.splice(i, 0, null);
  }
  return result;
}

/** The part of a bucket at its end in which a step leads to the next value. */
const STEP_EDGE = 0.001;

/** Returns two points for each bucket, so that a line through them has steps, and a single bucket is seen. */
export function withSteps({ times, values }: Gapped, stepSeconds: number): Gapped {
  return {
    times: times.flatMap((at) => [at, at + stepSeconds * (1 - STEP_EDGE)]),
    values: values.map((column) => column.flatMap((value) => [value, value])),
  };
}

/** Returns the periods without buckets inside of the range, as shares of it. */
export function gaps(lane: PlotLane, range: TimeRange): { from: number; to: number }[] {
  const found: { from: number; to: number }[] = [];
  for (let i = 1; i < lane.times.length; i++) {
    const last = lane.times[i - 1] ?? 0;
    const next = lane.times[i] ?? 0;
    if (next - last > lane.stepSeconds * GAP_STEPS) {
      found.push({ from: position(last + lane.stepSeconds, range), to: position(next, range) });
    }
  }
  const end = (lane.times.at(-1) ?? range.to) + lane.stepSeconds;
  if (range.to - end > lane.stepSeconds * (GAP_STEPS - 1)) found.push({ from: position(end, range), to: 1 });
  return found.filter(({ from, to }) => to > 0 && from < 1);
}

/** Returns the index of the bucket that holds the time, or of the one before if the next is late. Null in gaps. */
export function bucketAt(times: readonly number[], stepSeconds: number, at: number): number | null {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) <= at) low = middle + 1;
    else high = middle;
  }
  const index = low - 1;
  const start = times[index];
  if (start === undefined) return null;
  const next = times[index + 1];
  const isLate = next !== undefined && next - start <= stepSeconds * GAP_STEPS;
  return isLate || at < start + stepSeconds ? index : null;
}

/** Returns a layer's value at a time. Null in a gap. */
export function valueAt(lane: PlotLane, layer: Layer, at: number): number | null {
  const index = bucketAt(lane.times, lane.stepSeconds, at);
  return index === null ? null : (layer.values[index] ?? null);
}

/**
 * Returns the times of a table's rows. A time of a lane with wide buckets makes no row of its own where a lane
 * with narrower ones has a bucket.
 */
export function tableTimes(lanes: readonly PlotLane[], shown: TimeRange): number[] {
  const finestFirst = [...lanes].sort((a, b) => a.stepSeconds - b.stepSeconds);
  const times = new Set<number>();
  for (const [index, lane] of finestFirst.entries()) {
    const finer = finestFirst.slice(0, index).filter(({ stepSeconds }) => stepSeconds < lane.stepSeconds);
    for (const at of lane.times) {
      const isCovered = finer.some((one) => bucketAt(one.times, one.stepSeconds, at) !== null);
      // The first bucket begins before the shown time, unless that is a multiple of the width.
      if (!isCovered && at > shown.from - lane.stepSeconds && at <= shown.to) times.add(at);
    }
  }
  return [...times].sort((a, b) => a - b);
}

/** Returns the largest value of a layer. Null without values. */
export function largest(values: Values): number | null {
  let result: number | null = null;
  for (const value of values) if (value !== null && (result === null || value > result)) result = value;
  return result;
}
