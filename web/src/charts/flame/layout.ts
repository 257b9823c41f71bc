/** A tree of calls in columns. Parents stand before their children. */
export interface FlameTree {
  /** The index of the parent; -1 for roots. */
  parents: Int32Array;
  /** The value of a node with its descendants. */
  totals: Float64Array;
  names: readonly string[];
}

/** The rectangle of each node: its depth, and its left edge and width as shares of the whole. */
export interface FlameLayout {
  depths: Int32Array;
  lefts: Float64Array;
  widths: Float64Array;
  /** The value of each node without its children. */
  selves: Float64Array;
  depth: number;
  whole: number;
}

/** Lays out the tree, or the part below `root`. Nodes outside of it have the width 0. */
export function layoutFlame(tree: FlameTree, root = -1): FlameLayout {
  const { parents, totals } = tree;
  const count = parents.length;
  const depths = new Int32Array(count);
  const lefts = new Float64Array(count);
  const widths = new Float64Array(count);
  const selves = Float64Array.from(totals);
  const nextLeft = new Float64Array(count);
  let whole = 0;
  if (root >= 0) whole = totals[root] ?? 0;
  else for (let i = 0; i < count; i++) if (parents[i] === -1) whole += totals[i] ?? 0;

  let depth = 0;
  let rootLeft = 0;
  for (let i = 0; i < count; i++) {
    const parent = parents[i] ?? -1;
    const width = (totals[i] ?? 0) / whole;
    if (parent >= 0) selves[parent] = (selves[parent] ?? 0) - (totals[i] ?? 0);
    if (root === -1 ? parent === -1 : i === root) {
      lefts[i] = rootLeft;
      rootLeft += width;
    } else if (parent >= 0 && (widths[parent] ?? 0) > 0) {
      depths[i] = (depths[parent] ?? 0) + 1;
      lefts[i] = nextLeft[parent] ?? 0;
      nextLeft[parent] = (lefts[i] ?? 0) + width;
    } else {
      continue;
    }
    widths[i] = width;
    nextLeft[i] = lefts[i] ?? 0;
    depth = Math.max(depth, (depths[i] ?? 0) + 1);
  }
  return { depths, lefts, widths, selves, depth, whole };
}

/** Returns the name and the share if there is room for both, or the name alone, or its beginning. */
export function fitted(text: string, room: number, widthOf: (text: string) => number): string {
  if (widthOf(text) <= room) return text;
  const name = text.replace(/ [<>]?\s?[\d.]+\s%$/, "");
  const width = widthOf(name);
  if (width <= room) return name;
  // The letters are about as wide as one another, and what is too much is clipped.
  return `${name.slice(0, Math.max(1, Math.floor((name.length * (room - 11)) / width)))}…`;
}

/** Returns the node at a place, or -1. */
export function flameNodeAt(layout: FlameLayout, share: number, row: number): number {
  const { depths, lefts, widths } = layout;
  for (let i = 0; i < depths.length; i++) {
    const left = lefts[i] ?? 0;
    const width = widths[i] ?? 0;
    if (depths[i] === row && width > 0 && share >= left && share < left + width) return i;
  }
  return -1;
}
