import { type KeyboardEvent, useRef } from "react";
import styles from "./segmented.module.css";

export interface SegmentedOption<Value extends string> {
  value: Value;
  label: string;
  count?: number | null;
  disabled?: boolean;
  title?: string;
}

interface SegmentedProps<Value extends string> {
  label: string;
  options: readonly SegmentedOption<Value>[];
  value: Value;
  onChange(value: Value): void;
}

const STEP: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** A choice of one among few. Arrow keys move the choice. */
export function Segmented<Value extends string>({ label, options, value, onChange }: SegmentedProps<Value>) {
  const group = useRef<HTMLDivElement>(null);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = STEP[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const choices = options.filter((option) => !option.disabled);
    const at = choices.findIndex((option) => option.value === value);
    const next = choices[(at + step + choices.length) % choices.length];
    if (!next) return;
    onChange(next.value);
    group.current?.querySelectorAll<HTMLElement>("[role=radio]")[options.indexOf(next)]?.focus();
  };
  return (
    <div className={styles.group} role="radiogroup" aria-label={label} ref={group} onKeyDown={onKeyDown}>
      {options.map((option) => (
        <button
          type="button"
          role="radio"
          key={option.value}
          className={styles.option}
          aria-checked={option.value === value}
          tabIndex={option.value === value ? 0 : -1}
          disabled={option.disabled}
          title={option.title}
          onClick={() => onChange(option.value)}
        >
          {option.label}
          {typeof option.count === "number" && <span className={styles.count}>{option.count}</span>}
        </button>
      ))}
    </div>
  );
}
