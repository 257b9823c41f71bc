/** The start and the end of a bar. */
export interface Step {
  from: number;
  to: number;
}

/** Returns the bars of a waterfall: each begins where the one before it ended, the first one at 0. */
export function stepsOf(deltas: readonly number[]): Step[] {
  let at = 0;
  return deltas.map((delta) => {
    const from = at;
    at += delta;
    return { from, to: at };
  });
}

/** Returns the least and the greatest value of the axis. It contains 0 and is never empty. */
export function extentOf(steps: readonly Step[]): { low: number; high: number } {
  const ends = steps.map(({ to }) => to);
  const low = Math.min(0, ...ends);
  const high = Math.max(0, ...ends);
  return { low, high: high > low ? high : low + 1 };
}
