/** The points that a lane has room for. */
const MOST_POINTS = 600;

const WIDTHS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];

/** Returns a width of buckets that changes seldom while a cluster gets older. */
export function bucketWidth(seconds: number): number {
  const least = seconds / MOST_POINTS;
  return WIDTHS.find((width) => width >= least) ?? Math.ceil(least / 3600) * 3600;
}

/** Returns a time in seconds since 1970 as a text in ISO 8601. */
export const iso = (seconds: number) => new Date(Math.round(seconds * 1000)).toISOString();
