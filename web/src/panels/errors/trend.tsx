import { count, counted } from "@/format/number.ts";
import { day } from "@/format/time.ts";
import styles from "./errors.module.css";

export interface TrendPoint {
  start: string;
  occurrences: number;
}

interface TrendProps {
  points: readonly TrendPoint[] | null;
  isWeekly: boolean;
  isBad?: boolean;
  isLarge?: boolean;
}

/** Returns the trend as a sentence. */
export function trendText(points: readonly TrendPoint[], isWeekly: boolean): string {
  const sum = points.reduce((total, { occurrences }) => total + occurrences, 0);
  const busy = points.filter(({ occurrences }) => occurrences > 0).length;
  return `${counted(sum, "error")} on ${busy} of ${counted(points.length, isWeekly ? "week" : "day")}`;
}

/** The errors of a group by day or week as bars, from zero. */
export function Trend({ points, isWeekly, isBad = false, isLarge = false }: TrendProps) {
  if (!points) return <span className="faint small">The trend is unknown</span>;
  const top = Math.max(1, ...points.map(({ occurrences }) => occurrences));
  const label = trendText(points, isWeekly);
  return (
    <span
      className={isLarge ? styles.largeTrend : styles.trend}
      role="img"
      aria-label={label}
      title={label}
      data-bad={isBad}
    >
      {points.map(({ start, occurrences }) => (
        <i
          key={start}
          title={`${day(start)}: ${count(occurrences)}`}
          // A single error stays visible beside thousands.
          style={{ height: occurrences > 0 ? `max(2px, ${(occurrences / top) * 100}%)` : 0 }}
        />
      ))}
    </span>
  );
}
