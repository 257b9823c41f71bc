import { memo } from "react";
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
  const listed = lane.layers.filter(({ isUnlisted }) => !isUnlisted);
  const value = <span className={styles.value}>{main && headline(lane, main, at)}</span>;
  return (
    <div className={styles.gutter}>
      <div className={styles.title}>
        <span>{lane.title}</span>
        {!lane.isTitleLong && value}
      </div>
      {lane.isTitleLong ? (
        <div className={`${styles.note} ${styles.valued}`}>
          <span>{lane.note}</span>
          {value}
        </div>
      ) : (
        lane.note && <div className={styles.note}>{lane.note}</div>
      )}
      {listed.length > 1 && listed.map((layer) => <Entry key={layer.id} lane={lane} layer={layer} at={at} />)}
    </div>
  );
});

function headline(lane: PlotLane, main: Layer, at: number | null): string {
  if (at !== null) {
    const value = valueAt(lane, main, at);
    return value === null ? "no data" : lane.format(value);
  }
  const peak = largest(main.values);
  return peak === null ? "" : `peak ${lane.format(peak)}`;
}

function Entry({ lane, layer, at }: { lane: PlotLane; layer: Layer; at: number | null }) {
  const value = at === null ? null : valueAt(lane, layer, at);
  return (
    <div className={styles.entry}>
      <i className={styles.swatch} style={{ background: `var(${layer.colour})` }} />
      <span className="truncated" title={layer.label}>
        {layer.label}
      </span>
      <b className={styles.value}>{value === null ? "" : (lane.axisFormat ?? lane.format)(value)}</b>
    </div>
  );
}
