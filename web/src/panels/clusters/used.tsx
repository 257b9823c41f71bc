import { type Part, StackedBar } from "@/charts/bars/stacked_bar.tsx";
import { ACTIVITIES, ACTIVITY_NAMES, ACTIVITY_TOKENS, type Activity, isHatched } from "@/charts/colour.ts";
import { threadTime } from "@/format/duration.ts";
import { share } from "@/format/number.ts";
import styles from "./clusters.module.css";

export interface UsedTime {
  threadSeconds: number;
  utilization?: number | null;
  causes: readonly { cause: Activity; seconds: number }[];
}

/** Returns the parts of the threads' time in the order of all charts. Idle time is the rest of the bar. */
export function usedParts(causes: UsedTime["causes"]): Part[] {
  const seconds = new Map(causes.map(({ cause, seconds }) => [cause, seconds]));
  return ACTIVITIES.filter((activity) => activity !== "IDLE").map((activity) => ({
    id: activity,
    label: ACTIVITY_NAMES[activity],
    value: seconds.get(activity) ?? 0,
    colour: ACTIVITY_TOKENS[activity],
    isHatched: isHatched(activity),
  }));
}

/** The time of the threads by cause, and the share that computed something. */
export function Used({ usage }: { usage: UsedTime }) {
  if (usage.threadSeconds <= 0) return <span className="faint">–</span>;
  return (
    <span className={styles.used}>
      <span className={styles.usedBar}>
        <StackedBar
          label="Time of the threads"
          parts={usedParts(usage.causes)}
          whole={usage.threadSeconds}
          format={threadTime}
        />
      </span>
      <span className={`num ${styles.usedShare}`}>
        {typeof usage.utilization === "number" ? share(usage.utilization) : "–"}
      </span>
    </span>
  );
}
