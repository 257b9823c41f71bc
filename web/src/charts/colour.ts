/** A custom property of the design's tokens, such as `--act-cpu`. */
export type Token = `--${string}`;

/** Returns the value of a token, for canvases. It changes with the theme. */
export function tokenValue(token: Token): string {
  return getComputedStyle(document.documentElement).getPropertyValue(token).trim();
}

/** The activities of a thread, in the order of every chart. */
export const ACTIVITIES = [
  "CPU",
  "WAITING",
  "SERIALIZATION",
  "SPILL",
  "OVERHEAD",
  "FAILED",
  "IDLE",
  "UNOBSERVED",
  "UNACCOUNTED",
] as const;

export type Activity = (typeof ACTIVITIES)[number];

export const ACTIVITY_NAMES: Record<Activity, string> = {
  CPU: "CPU",
  WAITING: "Waiting",
  SERIALIZATION: "Serialization",
  SPILL: "Spill",
  OVERHEAD: "Overhead",
  FAILED: "Failed work",
  IDLE: "Idle",
  UNOBSERVED: "Before registration",
  UNACCOUNTED: "Unaccounted",
};

export const ACTIVITY_TOKENS: Record<Activity, Token> = {
  CPU: "--act-cpu",
  WAITING: "--act-waiting",
  SERIALIZATION: "--act-serialization",
  SPILL: "--act-spill",
  OVERHEAD: "--act-overhead",
  FAILED: "--act-failed",
  IDLE: "--act-idle",
  UNOBSERVED: "--act-unaccounted",
  UNACCOUNTED: "--act-unaccounted",
};

/** Returns true for activities that are hatched, because nothing is known of the time. */
export function isHatched(activity: Activity): boolean {
  return activity === "UNOBSERVED" || activity === "UNACCOUNTED";
}

const BY_DASK_NAME: Record<string, Activity> = {
  "thread-cpu": "CPU",
  "thread-noncpu": "WAITING",
  serialize: "SERIALIZATION",
  deserialize: "SERIALIZATION",
  "disk-read": "SPILL",
  "disk-write": "SPILL",
  compress: "SPILL",
  decompress: "SPILL",
  failed: "FAILED",
  cancelled: "FAILED",
};

/** Returns the activity that a fine performance metric of Dask belongs to. */
export function activityOf(daskName: string): Activity {
  return BY_DASK_NAME[daskName] ?? "OVERHEAD";
}

const SLOTS = 7;

/** Returns the 32-bit FNV-1a hash of the text's UTF-8 bytes. */
export function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) {
    hash ^= byte;
    hash = Math.imul(hash, 0x01000193);
  }
  return hash >>> 0;
}

/** The colour of functions that are shown together as "others". */
export const OTHERS: Token = "--fn-0";

/**
 * Returns a colour for each of the first seven functions, which are in descending order of size. A function
 * has the same colour everywhere, unless a larger one that is shown has it.
 */
export function functionTokens(prefixes: readonly string[]): Map<string, Token> {
  const taken = new Set<number>();
  const result = new Map<string, Token>();
  for (const prefix of prefixes.slice(0, SLOTS)) {
    let slot = fnv1a(prefix) % SLOTS;
    while (taken.has(slot)) slot = (slot + 1) % SLOTS;
    taken.add(slot);
    result.set(prefix, `--fn-${slot + 1}`);
  }
  return result;
}
