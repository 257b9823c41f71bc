/** The texts of filters, as in an address and in the fields of their forms. */

export interface PackageText {
  name: string;
  version?: string;
  versionPrefix?: string;
}

/** Reads `dask`, `dask==2026.3.0` or `dask==2026.*`. Null if no package is named. */
export function parsePackage(text: string): PackageText | null {
  const [name = "", version] = text.split("==").map((part) => part.trim());
  if (name === "") return null;
  if (!version) return { name };
  return version.endsWith("*") ? { name, versionPrefix: version.slice(0, -1) } : { name, version };
}

/** Reads `nightly`, a tag of any value, or `team:risk`. */
export function parseTag(text: string): { key: string; value?: string } {
  const colon = text.indexOf(":");
  return colon < 0 ? { key: text } : { key: text.slice(0, colon), value: text.slice(colon + 1) };
}

/** Returns the amount of a minimum cost, `5` or `5 EUR`. Null if it is none. */
export function parseCost(text: string): { amount: number; currency?: string } | null {
  const match = /^(\d+(?:\.\d+)?)(?:\s*([A-Z]{3}))?$/.exec(text.trim());
  if (!match?.[1]) return null;
  return { amount: Number(match[1]), ...(match[2] ? { currency: match[2] } : {}) };
}

const DURATION_UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Returns the seconds of `90s`, `30m`, `2h` or `1d`. Null if the text is no such duration. */
export function parseDuration(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*([smhd])$/.exec(text.trim());
  return match ? Number(match[1]) * (DURATION_UNITS[match[2] ?? ""] ?? 0) : null;
}
