/** The columns of the list in their order, and whether they are shown by default. */
export const COLUMN_NAMES = {
  state: "State",
  name: "Cluster",
  user: "User",
  started: "Started",
  lasted: "Lasted",
  workers: "Workers",
  memory: "Memory",
  threads: "Thread time",
  used: "Used",
  cost: "Cost",
  finished: "Finished",
  errors: "Errors",
  flags: "Flags",
  ended: "Ended",
  seen: "Last seen",
  idle: "Without work",
  tasks: "Tasks",
  failed: "Failed tasks",
  compute: "Compute time",
  joined: "Workers that joined",
  data: "Results",
  tags: "Tags",
  notes: "Notes",
  reason: "Close reason",
  number: "Number",
} as const;

export type ColumnName = keyof typeof COLUMN_NAMES;

export const ALL_COLUMNS = Object.keys(COLUMN_NAMES) as ColumnName[];
export const DEFAULT_COLUMNS: readonly ColumnName[] = ALL_COLUMNS.slice(0, 13);
/** The columns that a screen of less than 1,100 pixels leaves out, unless somebody chose them. */
const WIDE_COLUMNS: readonly ColumnName[] = ["workers", "memory", "finished"];

const KEY = "galvo.clusters.columns";

/** Reads `state,name,cost`. Null if no column is named. */
export function parseColumns(text: string | null | undefined): ColumnName[] | null {
  const columns = (text ?? "")
    .split(",")
    .filter((name): name is ColumnName => Object.hasOwn(COLUMN_NAMES, name));
  return columns.length > 0 ? [...new Set(columns)] : null;
}

/** Writes columns as `parseColumns` reads them. Undefined for the default, which needs no place in the address. */
export function columnsText(columns: readonly ColumnName[]): string | undefined {
  const text = columns.join();
  return text === DEFAULT_COLUMNS.join() ? undefined : text;
}

/** Returns the columns of the address, else the saved ones, else the default for the width. */
export function shownColumns(
  inAddress: string | undefined,
  saved: string | null,
  isWide: boolean,
): ColumnName[] {
  const chosen = parseColumns(inAddress) ?? parseColumns(saved);
  if (chosen) return chosen;
  return DEFAULT_COLUMNS.filter((name) => isWide || !WIDE_COLUMNS.includes(name));
}

export function savedColumns(): string | null {
  return localStorage.getItem(KEY);
}

/** Saves the columns of this browser. The default is not saved, so that it can change with the width. */
export function saveColumns(columns: readonly ColumnName[]): void {
  const text = columnsText(columns);
  if (text === undefined) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, text);
}

/**
 * Returns the columns with one of them shown or hidden. The others keep their order, a new one stands behind those
 * that are before it by default. The last one stays.
 */
export function withColumn(columns: readonly ColumnName[], name: ColumnName, isShown: boolean): ColumnName[] {
  const others = columns.filter((one) => one !== name);
  if (!isShown) return others.length > 0 ? others : [...columns];
  const before = ALL_COLUMNS.slice(0, ALL_COLUMNS.indexOf(name));
  return others.toSpliced(others.findLastIndex((one) => before.includes(one)) + 1, 0, name);
}

/** Returns the columns with one of them moved by one place to the left. */
export function movedColumn(columns: readonly ColumnName[], name: ColumnName): ColumnName[] {
  const at = columns.indexOf(name);
  return columns.toSpliced(at, 1).toSpliced(at - 1, 0, name);
}

/** Returns all columns: the shown ones in their order, and each hidden one in the place where it would be shown. */
export function allColumns(shown: readonly ColumnName[]): ColumnName[] {
  return ALL_COLUMNS.reduce<ColumnName[]>(
    (all, name) => (all.includes(name) ? all : withColumn(all, name, true)),
    [...shown],
  );
}
