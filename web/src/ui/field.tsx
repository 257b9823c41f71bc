import { type ReactNode, useEffect, useId, useRef } from "react";
import styles from "./field.module.css";

interface FieldProps {
  label: string;
  value: string;
  onChange(value: string): void;
  placeholder?: string;
  hint?: ReactNode;
  /** The reason why the value cannot be taken. */
  wrong?: string | null;
  list?: readonly string[];
}

/** A line of text with its label, a hint, and suggestions. */
export function Field({ label, value, onChange, placeholder, hint, wrong, list }: FieldProps) {
  const id = useId();
  return (
    <div className={styles.field}>
      <label className={styles.label} htmlFor={id}>
        {label}
      </label>
      <input
        id={id}
        className={styles.input}
        value={value}
        placeholder={placeholder}
        aria-invalid={wrong ? true : undefined}
        aria-describedby={`${id}-hint`}
        list={list ? `${id}-list` : undefined}
        autoComplete="off"
        onChange={(event) => onChange(event.target.value)}
      />
      {list && (
        <datalist id={`${id}-list`}>
          {list.map((item) => (
            <option key={item} value={item} />
          ))}
        </datalist>
      )}
      <p id={`${id}-hint`} className={`${styles.hint} ${wrong ? styles.wrong : ""}`}>
        {wrong ?? hint}
      </p>
    </div>
  );
}

interface CheckboxProps {
  label: string;
  isChecked: boolean;
  isPartly?: boolean;
  /** Keeps the label for screen readers only. */
  hidesLabel?: boolean;
  disabled?: boolean;
  onChange(isChecked: boolean): void;
}

/** A box to tick. */
export function Checkbox(props: CheckboxProps) {
  const { label, isChecked, isPartly = false, hidesLabel, disabled, onChange } = props;
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (box.current) box.current.indeterminate = isPartly;
  }, [isPartly]);
  const input = (
    <input
      ref={box}
      type="checkbox"
      className={styles.box}
      checked={isChecked}
      disabled={disabled}
      aria-label={hidesLabel ? label : undefined}
      onChange={(event) => onChange(event.target.checked)}
    />
  );
  if (hidesLabel) return input;
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the box is within
    <label className={styles.check}>
      {input}
      <span>{label}</span>
    </label>
  );
}
