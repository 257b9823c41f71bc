/** The search part of an address: flat strings, and lists for names that occur more than once. */
export type FlatSearch = Record<string, string | string[]>;

/** Reads the search part. Values stay text: `662E41` is no number. */
export function parseSearch(search: string): FlatSearch {
  const found = new Map<string, string | string[]>();
  for (const [name, value] of new URLSearchParams(search)) {
    const known = found.get(name);
    if (known === undefined) found.set(name, value);
    else if (Array.isArray(known)) known.push(value);
    else found.set(name, [known, value]);
  }
  return Object.fromEntries(found);
}

/** Writes the search part. Undefined, null and empty values are left out. */
export function stringifySearch(search: Record<string, unknown>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== undefined && item !== null && item !== "") parameters.append(name, String(item));
    }
  }
  // These characters are readable and need no escape in a search part.
  const text = parameters.toString().replaceAll("%3A", ":").replaceAll("%2C", ",").replaceAll("%2F", "/");
  return text ? `?${text}` : "";
}

/** Returns the text of a parameter, the last one if there are several. */
export function textParam(value: unknown): string | undefined {
  const last = Array.isArray(value) ? value.at(-1) : value;
  return typeof last === "string" && last !== "" ? last : undefined;
}

/** Returns the parameter if it is one of the choices. */
export function choiceParam<Choice extends string>(
  value: unknown,
  choices: readonly Choice[],
): Choice | undefined {
  const text = textParam(value);
  return choices.find((choice) => choice === text);
}

/** Returns the items of a comma-separated parameter that are among the choices. */
export function choicesParam<Choice extends string>(
  value: unknown,
  choices: readonly Choice[],
): Choice[] | undefined {
  const items = (textParam(value) ?? "").split(",");
  const known = choices.filter((choice) => items.includes(choice));
  return known.length > 0 ? known : undefined;
}

/** Returns all values of a parameter that may occur more than once. */
export function listParam(value: unknown): string[] | undefined {
  const items = (Array.isArray(value) ? value : [value]).filter(
    (item): item is string => typeof item === "string" && item !== "",
  );
  return items.length > 0 ? items : undefined;
}

const ISO_8601 = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/;

/** Returns a point in time, in milliseconds, if the parameter is one in ISO 8601. */
export function timeParam(value: unknown): number | undefined {
  // A plus sign that is not escaped arrives as a blank.
  const text = (textParam(value) ?? "").replace(/ (?=\d\d:\d\d$)/, "+");
  // Browsers guess the meaning of other texts.
  const at = ISO_8601.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? undefined : at;
}

/** A period as ISO 8601 writes it: `2026-10-31/2026-11-27`, `../2026-11-27`. */
export type Interval = `${string}/${string}`;

const DAY_MS = 86_400_000;

/** Returns the limits of a period, in milliseconds. The last day is a part of it. Null if the text is none. */
export function intervalLimits(text: string): { from: number | null; to: number } | null {
  const [start = "", end = "", ...rest] = text.split("/");
  const from = start === ".." ? null : timeParam(start);
  const until = timeParam(end);
  if (from === undefined || until === undefined || rest.length > 0) return null;
  const to = end.includes("T") ? until : until + DAY_MS;
  return from === null || from < to ? { from, to } : null;
}

/** Returns the parameter if it is a period. */
export function intervalParam(value: unknown): Interval | undefined {
  const text = textParam(value);
  return text !== undefined && intervalLimits(text) ? (text as Interval) : undefined;
}
