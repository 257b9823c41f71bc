import { useCallback, useMemo, useState } from "react";
import type { Row } from "./rows.ts";

/** The number of clusters that can be selected at once, because the server takes so many identifiers. */
export const MAX_SELECTED = 100;

export type Selection = ReadonlyMap<string, Row>;

// The selection stays while a cluster is opened and the list is returned to.
const kept = new Map<string, Selection>();

export interface Selected {
  rows: Selection;
  toggle(row: Row): void;
  set(rows: readonly Row[]): void;
}

/** The selected clusters of the account, as the loaded rows have them. */
export function useSelection(account: string, loaded: readonly Row[]): Selected {
  const [chosen, setRows] = useState<Selection>(kept.get(account) ?? new Map());
  const rows = useMemo(() => withLoaded(chosen, loaded), [chosen, loaded]);
  const change = useCallback(
    (next: Selection) => {
      kept.set(account, next);
      setRows(next);
    },
    [account],
  );
  return {
    rows,
    toggle: (row) => change(toggled(rows, row)),
    set: (next) => change(new Map(next.slice(0, MAX_SELECTED).map((row) => [row.id, row]))),
  };
}

/** Returns the selection with the row added or removed. A row above the maximum is not added. */
export function toggled(rows: Selection, row: Row): Selection {
  const next = new Map(rows);
  if (!next.delete(row.id) && next.size < MAX_SELECTED) next.set(row.id, row);
  return next;
}

/** Returns the selection with the new state of its rows. Those that are not loaded any more stay as they were. */
export function withLoaded(rows: Selection, loaded: readonly Row[]): Selection {
  if (rows.size === 0) return rows;
  return new Map([...rows, ...loaded.flatMap((row) => (rows.has(row.id) ? [[row.id, row] as const] : []))]);
}
