import { Link } from "@tanstack/react-router";
import { duration } from "@/format/duration.ts";
import { costText } from "@/format/money.ts";
import { counted } from "@/format/number.ts";
import { dayAndClock } from "@/format/time.ts";
import styles from "./clusters.module.css";
import { State } from "./row_state.tsx";
import { clusterName, type Row, shortNumber } from "./rows.ts";

/** A row of narrow screens: the name and the state, then who, when and for how long. */
export function CompactRow({ row, account }: { row: Row; account: string }) {
  const cost = costText(row.usage.costs);
  const errors = row.totals.errors;
  return (
    <>
      <span className={styles.line}>
        <Link
          to="/$account/clusters/$number"
          params={{ account, number: String(row.number) }}
          className={styles.name}
        >
          <span className={styles.word}>{clusterName(row)}</span>
          <span className="faint num">{shortNumber(row.number)}</span>
        </Link>
        <State row={row} />
      </span>
      <span className={`${styles.line} small muted`}>
        <span>
          {row.user?.name ?? "left"} · {dayAndClock(row.startedAt)} · {duration(row.durationSeconds)}
          {errors > 0 && <span className={styles.bad}> · {counted(errors, "error")}</span>}
        </span>
        {cost && (
          <span className="num">
            {cost.text}
            {cost.isEstimated && " est."}
          </span>
        )}
      </span>
    </>
  );
}
