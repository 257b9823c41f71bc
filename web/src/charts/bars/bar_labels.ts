/** The width below which a part has its label below the bar, at the end of a line. */
const LEAST_PIXELS = 66;
const GAP_PIXELS = 14;
/** The room between a label above the bar and the next part. */
const ROOM_PIXELS = 8;
/** The room between two parts, and the width of the smallest one, as stacked_bar.module.css has them. */
const BETWEEN_PIXELS = 1;
const SMALLEST_PIXELS = 1;

/** The place of the label of a part, in pixels from the start of the bar. */
export interface BarLabel {
  id: string;
  side: "above" | "below";
  left: number;
  width: number;
  /** The middle of the part. */
  middle: number;
}

interface Labelled {
  id: string;
  value: number;
  /** The width of the label. */
  width: number;
}

/**
 * Returns the places of the labels: above a part that is wide enough for its label, the others below, where none
 * lies on another one. Null if they do not fit.
 */
export function barLabels(parts: readonly Labelled[], width: number): BarLabel[] | null {
  const widths = drawnWidths(
    parts.map(({ value }) => value),
    width - (parts.length - 1) * BETWEEN_PIXELS,
  );
  let start = 0;
  const labels = parts.map(({ id, width: own }, index): BarLabel => {
    const from = start;
    const to = from + (widths[index] ?? 0);
    start = to + BETWEEN_PIXELS;
    const isWide = to - from >= Math.max(LEAST_PIXELS, own + ROOM_PIXELS);
    const middle = (from + to) / 2;
    return {
      id,
      side: isWide ? "above" : "below",
      left: isWide ? from : middle - own / 2,
      width: own,
      middle,
    };
  });
  const below = labels.filter(({ side }) => side === "below");
  let end = -GAP_PIXELS;
  for (const label of below) {
    label.left = Math.max(label.left, end + GAP_PIXELS);
    end = label.left + label.width;
  }
  let limit = width + GAP_PIXELS;
  for (const label of below.toReversed()) {
    label.left = Math.min(label.left, limit - GAP_PIXELS - label.width);
    limit = label.left;
  }
  return limit < 0 ? null : labels;
}

/** Returns the widths of parts that share a number of pixels, of which each has at least the smallest width. */
function drawnWidths(values: readonly number[], pixels: number): number[] {
  const sum = (list: readonly number[]) => list.reduce((total, value) => total + value, 0);
  const isSmallest = (value: number) => (value / sum(values)) * pixels < SMALLEST_PIXELS;
  const others = values.filter((value) => !isSmallest(value));
  const room = pixels - (values.length - others.length) * SMALLEST_PIXELS;
  return values.map((value) => (isSmallest(value) ? SMALLEST_PIXELS : (value / sum(others)) * room));
}
