import type { ReactNode } from "react";
import styles from "./chip.module.css";
import { Icon } from "./icon.tsx";

export type Tone = "plain" | "good" | "notice" | "bad" | "tag";

/** A short fact. */
export function Chip({ tone = "plain", children }: { tone?: Tone; children: ReactNode }) {
  return <span className={`${styles.chip} ${tone === "plain" ? "" : styles[tone]}`}>{children}</span>;
}

interface FilterChipProps {
  name: string;
  value: string;
  onRemove(): void;
  /** The number of items that would pass without this filter. */
  without?: number | null;
}

/** An active filter. */
export function FilterChip({ name, value, onRemove, without }: FilterChipProps) {
  return (
    <span>
      <span className={styles.filter}>
        <span className={styles.key}>{name}</span>
        <span className={styles.value}>{value}</span>
        <button
          type="button"
          className={styles.remove}
          onClick={onRemove}
          aria-label={`Remove the filter ${name} ${value}`}
        >
          <Icon name="close" size={12} />
        </button>
      </span>
      {without !== undefined && without !== null && <span className={styles.count}> {without} without</span>}
    </span>
  );
}

/** The classes of a button that adds a filter. */
export const addFilterClass = `${styles.filter} ${styles.add}`;
