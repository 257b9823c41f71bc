import type { Token } from "@/charts/colour.ts";
import type { FlameTree } from "@/charts/flame/layout.ts";
import { packageOf } from "@/panels/errors/traceback.ts";

/** A line of code that was sampled. */
export interface Frame {
  file: string;
  function: string;
  line: number;
  text: string | null;
}

/** A profile as the server sends it: the nodes of the call tree as lists of numbers. */
export interface ProfileColumns {
  samples: number;
  frames: readonly Frame[];
  columns: {
    parents: readonly (number | null)[];
    frames: readonly number[];
    self: readonly number[];
    totals: readonly number[];
  };
}

/** The call tree of a profile. */
export interface Calls extends FlameTree {
  /** The lines of code. */
  lines: readonly Frame[];
  /** The index of each node's line. */
  frames: Int32Array;
  /** The samples in which a node's line was innermost. */
  selves: Float64Array;
  /** A number for each node's path of calls, which stays the same when the profile is read again. */
  keys: Uint32Array;
  samples: number;
  /** The samples whose innermost line is in the tree. The others were in lines that are too rare. */
  drawnSamples: number;
}

const NO_BREAK = "\u00a0";

/** Returns the part of the whole in percent with one decimal: `24.7 %`. A part that is not 0 never reads as 0. */
export function percent(part: number, whole: number): string {
  const value = whole > 0 ? (part / whole) * 100 : 0;
  if (value > 0 && value < 0.05) return `<${NO_BREAK}0.1${NO_BREAK}%`;
  if (value < 100 && value >= 99.95) return `>${NO_BREAK}99.9${NO_BREAK}%`;
  return `${value.toFixed(1)}${NO_BREAK}%`;
}

/** The least share of a node that has its share behind its name. */
const NAMED_SHARE = 0.02;

/** Returns the call tree in typed lists. */
export function calls({ samples, frames: lines, columns }: ProfileColumns): Calls {
  const parents = Int32Array.from(columns.parents, (parent) => parent ?? -1);
  const frames = Int32Array.from(columns.frames);
  const totals = Float64Array.from(columns.totals);
  const selves = Float64Array.from(columns.self);
  const keys = new Uint32Array(parents.length);
  const hashes = lines.map(({ file, function: name, line }) => hash(`${file}\n${name}\n${line}`));
  const names = new Array<string>(parents.length);
  let drawnSamples = 0;
  for (let i = 0; i < parents.length; i++) {
    const frame = frames[i] ?? 0;
    const parent = parents[i] ?? -1;
    const above = parent < 0 ? OFFSET : (keys[parent] ?? 0);
    keys[i] = Math.imul(above ^ (hashes[frame] ?? 0), PRIME);
    drawnSamples += selves[i] ?? 0;
    const total = totals[i] ?? 0;
    const name = lines[frame]?.function ?? "";
    names[i] = total >= samples * NAMED_SHARE ? `${name} ${percent(total, samples)}` : name;
  }
  return { parents, totals, names, lines, frames, selves, keys, samples, drawnSamples };
}

const OFFSET = 0x811c9dc5;
const PRIME = 0x01000193;

/** Returns the 32-bit FNV-1a hash of the text's UTF-16 units. */
function hash(text: string): number {
  let value = OFFSET;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), PRIME);
  return value >>> 0;
}

/** Returns the node of a path of calls as it stands in the address. -1 without one. */
export function nodeOfKey({ keys }: Calls, key: string | undefined): number {
  const wanted = Number.parseInt(key ?? "", 16);
  return Number.isNaN(wanted) ? -1 : keys.indexOf(wanted);
}

export function keyOfNode({ keys }: Calls, node: number): string | undefined {
  return node < 0 ? undefined : keys[node]?.toString(16);
}

/** Returns the nodes from the outermost one to this one. */
export function pathTo({ parents }: Calls, node: number): number[] {
  const path: number[] = [];
  for (let i = node; i >= 0; i = parents[i] ?? -1) path.unshift(i);
  return path;
}

/** The origins of code, in the order of the key. */
export const ORIGINS = ["own", "lib", "dask", "std"] as const;
export type Origin = (typeof ORIGINS)[number];

export const ORIGIN_NAMES: Record<Origin, string> = {
  own: "your code",
  lib: "packages",
  dask: "Dask",
  std: "Python and others",
};

export const ORIGIN_TOKENS: Record<Origin, Token> = {
  own: "--flame-own",
  lib: "--flame-lib",
  dask: "--flame-dask",
  std: "--flame-std",
};

/** Returns the origin of a source file. */
export function originOf(file: string): Origin {
  const owner = packageOf(file);
  if (owner === "dask" || owner === "distributed") return "dask";
  if (owner === "Python" || file === "" || file.startsWith("<")) return "std";
  return owner === null ? "own" : "lib";
}

/** The lines that a text was found in. */
export interface Found {
  /** 1 for each line of the profile whose function or file contains the text. */
  lines: Uint8Array;
  /** The number of functions. */
  functions: number;
  /** The samples with such a line on their path of calls, each counted once. */
  samples: number;
}

/** Finds a text in the names of functions and files, in upper or lower case. Null for an empty text. */
export function find(tree: Calls, text: string): Found | null {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return null;
  const hits = new Set<string>();
  const lines = Uint8Array.from(tree.lines, ({ file, function: name }) => {
    if (!name.toLowerCase().includes(wanted) && !file.toLowerCase().includes(wanted)) return 0;
    hits.add(`${file}\n${name}`);
    return 1;
  });
  const covered = new Uint8Array(tree.parents.length);
  let samples = 0;
  for (let i = 0; i < covered.length; i++) {
    const parent = tree.parents[i] ?? -1;
    const isBelow = parent >= 0 && covered[parent] === 1;
    const isHit = lines[tree.frames[i] ?? 0] === 1;
    if (isHit && !isBelow) samples += tree.totals[i] ?? 0;
    covered[i] = isBelow || isHit ? 1 : 0;
  }
  return { lines, functions: hits.size, samples };
}

/** A function with the samples of all its lines. */
export interface FunctionSamples {
  id: string;
  name: string;
  file: string;
  origin: Origin;
  /** The samples in which the function was innermost. */
  self: number;
  /** The samples with the function on their path of calls, each counted once. */
  total: number;
}

/** Returns the functions, the most samples of their own first. Their own samples add up to `drawnSamples`. */
export function functionsOf(tree: Calls): FunctionSamples[] {
  const indices = new Map<string, number>();
  const functions: FunctionSamples[] = [];
  const ofLine = tree.lines.map(({ file, function: name }) => {
    const id = `${file}\n${name}`;
    const known = indices.get(id);
    if (known !== undefined) return known;
    indices.set(id, functions.length);
    functions.push({ id, name, file, origin: originOf(file), self: 0, total: 0 });
    return functions.length - 1;
  });
  const ofNode = (node: number) => ofLine[tree.frames[node] ?? 0] ?? 0;
  for (let i = 0; i < tree.parents.length; i++) {
    const own = ofNode(i);
    const entry = functions[own];
    if (!entry) continue;
    entry.self += tree.selves[i] ?? 0;
    let above = tree.parents[i] ?? -1;
    while (above >= 0 && ofNode(above) !== own) above = tree.parents[above] ?? -1;
    if (above < 0) entry.total += tree.totals[i] ?? 0;
  }
  return functions.sort((a, b) => b.self - a.self || b.total - a.total);
}
