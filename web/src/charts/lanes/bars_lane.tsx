import { memo } from "react";
import styles from "./lanes.module.css";
import { position } from "./scale.ts";
import type { BarsLane, TimeRange } from "./types.ts";

const ROW = 20;

/** Bars in rows. Their names stand on them. */
export const Bars = memo(function Bars({ lane, shown }: { lane: BarsLane; shown: TimeRange }) {
  return (
    <div className={styles.bars} style={{ height: Math.max(1, lane.rows.length) * ROW }}>
      {lane.rows.flatMap((row, index) =>
        row
          .filter(({ from, to }) => to >= shown.from && from <= shown.to)
          .map((bar) => {
            const left = Math.max(0, position(bar.from, shown));
            const right = Math.min(1, position(bar.to, shown));
            return (
              <div
                key={bar.id}
                className={styles.bar}
                data-tone={bar.tone ?? "plain"}
                title={bar.detail ? `${bar.label}: ${bar.detail}` : bar.label}
                style={{
                  left: `${left * 100}%`,
                  width: `${(right - left) * 100}%`,
                  top: index * ROW,
                  ...(bar.colour ? { borderLeft: `3px solid var(${bar.colour})` } : {}),
                }}
              >
                <span className={styles.barText}>
                  {bar.label}
                  {bar.detail && <span className="faint"> · {bar.detail}</span>}
                </span>
              </div>
            );
          }),
      )}
    </div>
  );
});
