import type { Token } from "../colour.ts";
import styles from "./stacked_bar.module.css";

export interface Part {
  id: string;
  label: string;
  value: number;
  colour: Token;
  isHatched?: boolean;
  isOutlined?: boolean;
}

interface StackedBarProps {
  /** A sentence with the total, for readers who do not see the bar. */
  label: string;
  parts: readonly Part[];
  /** The value of the full width. The sum of the parts by default. */
  whole?: number;
  size?: "small" | "large";
  /** A value to compare with, as a line. */
  mark?: number | null;
  format(value: number): string;
}

function partClass({ isHatched, isOutlined }: Part): string {
  return [styles.part, isHatched ? styles.hatched : "", isOutlined ? styles.outlined : ""].join(" ");
}

const percent = (value: number) => `${Math.min(100, Math.max(0, value * 100))}%`;

/** Parts of a sum, beside one another in their order. */
export function StackedBar({ label, parts, whole, size = "small", mark, format }: StackedBarProps) {
  const total = whole ?? parts.reduce((sum, { value }) => sum + value, 0);
  const shown = parts.filter(({ value }) => value > 0);
  return (
    <div className={styles.holder}>
      <div
        className={`${styles.bar} ${size === "large" ? styles.large : ""}`}
        role="img"
        aria-label={`${label}: ${shown.map((part) => `${part.label} ${format(part.value)}`).join(", ")}`}
      >
        {shown.map((part) => (
          <i
            key={part.id}
            className={partClass(part)}
            title={`${part.label}: ${format(part.value)}`}
            style={{ width: percent(part.value / total), backgroundColor: `var(${part.colour})` }}
          />
        ))}
      </div>
      {typeof mark === "number" && total > 0 && (
        <span className={styles.mark} style={{ left: percent(mark / total) }} />
      )}
    </div>
  );
}

/** The parts with their values as a list, for narrow screens and as the key of a bar. */
export function Legend({ parts, format }: Pick<StackedBarProps, "parts" | "format">) {
  return (
    <ul className={styles.legend}>
      {parts
        .filter(({ value }) => value > 0)
        .map((part) => (
          <li key={part.id}>
            <i
              className={`${styles.swatch} ${partClass(part)}`}
              style={{ backgroundColor: `var(${part.colour})` }}
            />
            {part.label} <span className="num">{format(part.value)}</span>
          </li>
        ))}
    </ul>
  );
}
