import type { ClusterTimeVersusQuery } from "@/data/gql/graphql.ts";
import { type FunctionTime, UNATTRIBUTED } from "./spread.ts";

type Comparison = NonNullable<ClusterTimeVersusQuery["viewer"]["account"]["compare"]>;

/** A value of another run, and how much more than that the shown run has. */
export interface Versus {
  base: number;
  delta: number;
}

/** The values of another run by the name of the row that is shown. */
export interface FunctionComparison {
  byRow: ReadonlyMap<string, Versus>;
  /** The values of the activities of a function, by Dask's own names. */
  byActivity(name: string): ReadonlyMap<string, Versus>;
  /** The functions that only the other run has. */
  missing: Versus & { functions: number };
  total: Versus;
}

const sum = (all: readonly Versus[]): Versus => ({
  base: all.reduce((total, { base }) => total + base, 0),
  delta: all.reduce((total, { delta }) => total + delta, 0),
});

/**
 * Returns the comparison for the shown rows, of which the last one may stand for several functions. The rows and
 * the missing functions add up to the total. Null if the answer has not all functions.
 */
export function compareFunctions(
  { rows, remaining }: Comparison,
  shown: readonly FunctionTime[],
  functions: readonly FunctionTime[],
): FunctionComparison | null {
  if (remaining.rows > 0) return null;
  const measured = new Map<string, Map<string, Versus>>();
  for (const { key, base, delta } of rows) {
    if (key.part !== "TASKS") continue;
    const name = key.function ?? UNATTRIBUTED;
    const own = measured.get(name) ?? new Map<string, Versus>();
    measured.set(name, own.set(key.activity ?? "other", { base: base ?? 0, delta }));
  }
  const byFunction = new Map([...measured].map(([name, own]) => [name, sum([...own.values()])]));
  const none = { base: 0, delta: 0 };
  const names = new Set(functions.map((one) => one.function));
  const shownNames = new Set(shown.map((one) => one.function));
  const others = functions.filter((one) => !shownNames.has(one.function));
  const byRow = new Map(
    shown.map((one) => [
      one.function,
      names.has(one.function)
        ? (byFunction.get(one.function) ?? none)
        : sum(others.map((other) => byFunction.get(other.function) ?? none)),
    ]),
  );
  const missing = [...byFunction].filter(([name]) => !names.has(name)).map(([, versus]) => versus);
  return {
    byRow,
    byActivity: (name) => measured.get(name) ?? new Map(),
    missing: { ...sum(missing), functions: missing.length },
    total: sum([...byFunction.values()]),
  };
}
