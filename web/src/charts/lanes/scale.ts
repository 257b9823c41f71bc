import type { TimeRange } from "./types.ts";

/** Returns the position of a time in the range, from 0 to 1. */
export function position(at: number, { from, to }: TimeRange): number {
  return (at - from) / (to - from);
}

/** Returns the time at a position. */
export function timeAt(share: number, { from, to }: TimeRange): number {
  return from + share * (to - from);
}

const STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800,
  604_800,
];

/** Returns the round times in the range, at most `most`, in the zone whose offset is given in seconds. */
export function timeTicks(range: TimeRange, most: number, offsetSeconds = 0): number[] {
  const width = range.to - range.from;
  const step =
    STEPS.find((candidate) => width / candidate <= most) ?? Math.ceil(width / most / 604_800) * 604_800;
  const ticks: number[] = [];
  const first = Math.ceil((range.from + offsetSeconds) / step) * step - offsetSeconds;
  for (let at = first; at <= range.to; at += step) ticks.push(at);
  return ticks;
}

const MANTISSAS = [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10];

/** Returns the end of an axis from zero: a round number that is not below the value, with a round half. */
export function roundMax(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const mantissa = value / power;
  return (MANTISSAS.find((candidate) => candidate >= mantissa - 1e-9) ?? 10) * power;
}

/** Returns the end of an axis of bytes: round in its 1,024-based unit. */
export function roundMaxBytes(value: number): number {
  if (!(value > 0)) return 1;
  const unit = 1024 ** Math.floor(Math.log(value) / Math.log(1024));
  return Math.min(roundMax(value / unit), 1024) * unit;
}
