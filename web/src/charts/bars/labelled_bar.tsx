import { useRef } from "react";
import { useIsNarrow } from "@/ui/media.ts";
import { useWidth } from "@/ui/use_width.ts";
import { textWidth } from "../text_width.ts";
import { type BarLabel, barLabels } from "./bar_labels.ts";
import styles from "./stacked_bar.module.css";
import { Legend, type Part, StackedBar } from "./stacked_bar.tsx";

interface LabelledBarProps {
  /** A sentence with the total. */
  label: string;
  parts: readonly Part[];
  format(value: number): string;
}

/** A large bar whose parts have their labels at them. Where these do not fit, a list below has them. */
export function LabelledBar({ label, parts, format }: LabelledBarProps) {
  const ref = useRef<HTMLDivElement>(null);
  const width = useWidth(ref);
  const isNarrow = useIsNarrow();
  const shown = parts.filter(({ value }) => value > 0);
  const sized = shown.map((part) => ({
    ...part,
    width: Math.ceil(Math.max(textWidth(part.label, 12), textWidth(format(part.value), 11))),
  }));
  const labels = isNarrow || width === 0 ? null : barLabels(sized, width);
  const labelsOn = (side: BarLabel["side"]) => labels?.filter((one) => one.side === side) ?? [];
  const labelTexts = (side: BarLabel["side"]) =>
    labelsOn(side).map(({ id, left }) => {
      const part = shown.find((one) => one.id === id);
      return (
        part && (
          <span key={id} className={styles.label} style={{ left }}>
            <b>{part.label}</b>
            <span>{format(part.value)}</span>
          </span>
        )
      );
    });
  const below = labelsOn("below");
  return (
    <div ref={ref}>
      {labels && <div className={styles.labels}>{labelTexts("above")}</div>}
      <StackedBar label={label} parts={parts} size="large" format={format} />
      {below.length > 0 && (
        <div className={`${styles.labels} ${styles.below}`}>
          <svg width={width} height={LEADER_PIXELS} aria-hidden="true">
            <path
              d={below.map(({ left, width: own, middle }) => leader(middle, left, own)).join("")}
              stroke="var(--line-4)"
              fill="none"
            />
          </svg>
          {labelTexts("below")}
        </div>
      )}
      {!labels && <Legend parts={parts} format={format} />}
    </div>
  );
}

/** The height of the lines from the bar to the labels below it. */
const LEADER_PIXELS = 10;

/** Returns a line from the middle of the part to the nearest place of its label. */
function leader(middle: number, left: number, width: number): string {
  const end = Math.min(left + width - 4, Math.max(left + 4, middle));
  return `M${middle.toFixed(1)} 0V3L${end.toFixed(1)} ${LEADER_PIXELS}`;
}
