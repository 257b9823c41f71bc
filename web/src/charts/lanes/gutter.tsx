import { memo } from "react";
import type { Token } from "../colour.ts";
import styles from "./lanes.module.css";
import { largest, valueAt } from "./prepare.ts";
import type { Lane, Layer, PlotLane } from "./types.ts";

interface GutterProps {
  lane: Lane;
  /** The time under the crosshair, in seconds. */
  at: number | null;
}

/** The names left of a lane. Under the crosshair they have the values of that time, otherwise the peak. */
export const Gutter = memo(function Gutter({ lane, at }: GutterProps) {
  if (lane.kind === "bars") {
    return (
      <div className={styles.gutter}>
        <div className={styles.title}>{lane.title}</div>
        {lane.note && <div className={styles.note}>{lane.note}</div>}
      </div>
    );
  }
  const main = lane.layers.find(({ id }) => id === lane.main);
  const whole = lane.layers.find(({ id }) => id === lane.whole?.layer);
  const listed = lane.layers.filter(({ isUnlisted }) => !isUnlisted);
  const values = { main: read(lane, main, at), whole: read(lane, whole, at) };
  return (
    <div className={styles.gutter}>
      <div className={styles.title}>
        <span>{lane.title}</span>
        <span className={styles.value}>{main && headline(lane, main, at, values)}</span>
      </div>
      {lane.note && <div className={styles.note}>{lane.note}</div>}
      {listed.length > 1 &&
        listed.map((layer) => (
          <Entry
            key={layer.id}
            lane={lane}
            label={layer.label}
            colour={layer.colour}
            isLine={layer.draw !== "area"}
            value={read(lane, layer, at)}
          />
        ))}
      {lane.whole && whole && <Entry lane={lane} label={lane.whole.rest} value={restOf(values)} />}
    </div>
  );
});

interface Values {
  main: number | null;
  whole: number | null;
}

function read(lane: PlotLane, layer: Layer | undefined, at: number | null): number | null {
  return layer && at !== null ? valueAt(lane, layer, at) : null;
}

/** Returns what the main layer leaves of the whole. Both are measured, so that it may seem to be less than nothing. */
function restOf({ main, whole }: Values): number | null {
  return main === null || whole === null ? null : Math.max(0, whole - main);
}

function headline(lane: PlotLane, main: Layer, at: number | null, values: Values): string {
  if (at !== null) {
    if (values.main === null) return "no data";
    const of = values.whole === null ? "" : ` of ${lane.format(values.whole)}`;
    return lane.format(values.main) + of;
  }
  const peak = largest(main.values);
  return peak === null ? "" : `peak ${lane.format(peak)}`;
}

interface EntryProps {
  lane: PlotLane;
  label: string;
  /** Absent for the white that is left. */
  colour?: Token;
  isLine?: boolean;
  value: number | null;
}

function Entry({ lane, label, colour = "--bg-panel", isLine = false, value }: EntryProps) {
  return (
    <div className={styles.entry}>
      <i
        className={isLine ? `${styles.swatch} ${styles.line}` : styles.swatch}
        style={{ background: `var(${colour})` }}
      />
      <span className="truncated" title={label}>
        {label}
      </span>
      <b className={styles.value}>{value === null ? "" : (lane.axisFormat ?? lane.format)(value)}</b>
    </div>
  );
}
