/** The number of points of the line. */
export const POINTS = 60;

/** The longest period that the server's series cover by default, in seconds. */
const LONGEST = 31 * 86_400;

/** The width of a step, in seconds, in which a cluster reports at least once. */
const SHORTEST = 15;

export interface CardPeriod {
  /** The start in ISO 8601. Null for the cluster's start. */
  from: string | null;
  bucketSeconds: number;
  isCut: boolean;
}

/** Returns the period of the line: the cluster's life, or its last 31 days. */
export function cardPeriod(startedAt: string, durationSeconds: number): CardPeriod {
  const seconds = Math.min(Math.max(durationSeconds, 1), LONGEST);
  const isCut = durationSeconds > LONGEST;
  const from = isCut
    ? new Date(Date.parse(startedAt) + (durationSeconds - LONGEST) * 1000).toISOString()
    : null;
  return { from, bucketSeconds: Math.max(SHORTEST, Math.ceil(seconds / POINTS)), isCut };
}

interface Point {
  at: string;
  value: number;
}

/**
 * Returns the busy threads in steps of equal width: tasks on workers, at most one for each thread. A step is
 * null if one of the two was not measured.
 */
export function busyThreads(
  tasks: readonly Point[],
  threads: readonly Point[],
  bucketSeconds: number,
): (number | null)[] {
  const first = threads[0];
  if (!first) return [];
  const start = Date.parse(first.at);
  const place = (at: string) => Math.round((Date.parse(at) - start) / (bucketSeconds * 1000));
  const last = threads.at(-1) ?? first;
  const counts = new Map(tasks.map(({ at, value }) => [place(at), value]));
  const places: (number | null)[] = Array.from({ length: place(last.at) + 1 }, () => null);
  for (const { at, value } of threads) {
    const count = counts.get(place(at));
    if (count !== undefined) places[place(at)] = Math.min(count, value);
  }
  return places;
}
