import type { ReactNode } from "react";
import type { Token } from "../colour.ts";

/** A part of the time axis, in seconds since 1970. */
export interface TimeRange {
  from: number;
  to: number;
}

/** One quantity of a lane. `values` belong to the lane's `times`; null is a gap, never 0. */
export interface Layer {
  id: string;
  label: string;
  colour: Token;
  values: readonly (number | null)[];
  draw: "area" | "line" | "steps" | "band";
  /** Areas are stacked in their order; the others are drawn over them. */
  isHatched?: boolean;
  /** The limits of a band. */
  low?: readonly (number | null)[];
  high?: readonly (number | null)[];
  /** Left out of the legend, for a line that repeats the sum of the areas. */
  isUnlisted?: boolean;
  /** The label of an area stands on it as well, where there is room. */
  isNamed?: boolean;
}

interface LaneBase {
  id: string;
  title: string;
  /** The line below the title: the unit or the source. */
  note?: string;
}

export interface PlotLane extends LaneBase {
  kind: "plot";
  height: number;
  /** The starts of the buckets, in seconds, ascending. */
  times: readonly number[];
  stepSeconds: number;
  layers: readonly Layer[];
  /** The layer whose value stands beside the title. */
  main: string;
  /** The layer of which the main one is a part, and the name of the rest, without a layer of its own. */
  whole?: { layer: string; rest: string };
  max: number;
  /** The unit of the values as they are, for a table that leaves the page. Absent for numbers of things. */
  unit?: string;
  format(value: number): string;
  /** The labels of the axis, without the unit where the format has one. */
  axisFormat?(value: number): string;
  limit?: { value: number; label: string };
  /** Values are drawn as steps over their buckets: for buckets so wide that a line between them would mislead. */
  hasSteps?: boolean;
  /** As in `LanesProps`, for a lane that settles later than the others. */
  settledUntil?: number | null;
  /** Shown in the place of the plot if there are no points. */
  empty?: string;
}

export interface Bar {
  id: string;
  from: number;
  to: number;
  label: string;
  detail?: string;
  tone?: "plain" | "bad";
  colour?: Token;
}

/** Bars in rows, such as spans by depth. */
export interface BarsLane extends LaneBase {
  kind: "bars";
  rows: readonly (readonly Bar[])[];
}

export type Lane = PlotLane | BarsLane;

export type MarkKind = "death" | "error" | "flag" | "event";

/** A moment with a line through all lanes. */
export interface Mark {
  id: string;
  at: number;
  kind: MarkKind;
  title: string;
  detail?: string;
}

/** The moment at which another run was done. */
export interface Reference {
  at: number;
  label: string;
}

export interface LanesProps {
  /** A sentence that says what the chart shows. */
  label: string;
  /** The whole time that there is. */
  extent: TimeRange;
  /** The time that is shown. */
  shown: TimeRange;
  lanes: readonly Lane[];
  marks?: readonly Mark[];
  marksNote?: string;
  reference?: Reference | null;
  selection: TimeRange | null;
  onSelect(selection: TimeRange | null): void;
  /** Called with the part to show instead, or with null for all of it. Absent if the chart cannot be zoomed. */
  onZoom?(range: TimeRange | null): void;
  onOpenMark?(mark: Mark): void;
  /** The time before which nothing changes any more. Later values are paler. */
  settledUntil?: number | null;
  header?: ReactNode;
  /** True while the crosshair moves through the shown time by itself. */
  isPlaying?: boolean;
  /** Called with each step of the playback. */
  onPlay?(at: number): void;
  /** Called when the playback is over, or the user takes the crosshair, with the time at which it ends. */
  onPlayed?(at: number): void;
}
