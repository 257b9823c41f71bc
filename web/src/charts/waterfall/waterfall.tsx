import type { Token } from "../colour.ts";
import type { Step } from "./steps.ts";
import { extentOf, stepsOf } from "./steps.ts";
import styles from "./waterfall.module.css";

/** A part of a difference. */
export interface Difference {
  id: string;
  label: string;
  delta: number;
  colour: Token;
  isHatched?: boolean;
  isOutlined?: boolean;
}

interface WaterfallProps {
  /** A sentence that says what the chart shows. */
  label: string;
  parts: readonly Difference[];
  /** The name of the bar of the whole difference. */
  totalLabel: string;
  format(value: number): string;
  /** The value of a part, without the unit. */
  bare(value: number): string;
}

/** The parts of a difference, each from where the one before it ended, and their sum. */
export function Waterfall({ label, parts, totalLabel, format, bare }: WaterfallProps) {
  const steps = stepsOf(parts.map(({ delta }) => delta));
  const total = steps.at(-1)?.to ?? 0;
  const { low, high } = extentOf(steps);
  const words = parts.map((part) => `${part.label} ${format(part.delta)}`).join(", ");
  const zero = (-low / (high - low)) * 100;
  return (
    <div
      className={styles.chart}
      role="img"
      aria-label={`${label}: ${words}; ${totalLabel} ${format(total)}`}
    >
      <div
        className={styles.zero}
        style={{ bottom: `calc(var(--below) + (100% - var(--around)) * ${zero / 100})` }}
      />
      {parts.map((part, index) => {
        const step = steps[index] ?? { from: 0, to: 0 };
        const looks = [part.isHatched ? styles.hatched : "", part.isOutlined ? styles.outlined : ""];
        return (
          <Bar
            key={part.id}
            {...{ low, high, step }}
            label={part.label}
            value={bare(part.delta)}
            look={looks.join(" ")}
            colour={part.colour}
          />
        );
      })}
      <Bar
        {...{ low, high }}
        step={{ from: 0, to: total }}
        label={totalLabel}
        value={format(total)}
        look={String(styles.total)}
        colour="--text"
      />
    </div>
  );
}

interface BarProps {
  low: number;
  high: number;
  step: Step;
  label: string;
  value: string;
  look: string;
  colour: Token;
}

function Bar({ low, high, step, label, value, look, colour }: BarProps) {
  const share = (at: number) => ((at - low) / (high - low)) * 100;
  const bottom = share(Math.min(step.from, step.to));
  const height = Math.abs(share(step.to) - share(step.from));
  return (
    <div className={`${styles.column} ${look}`} aria-hidden="true">
      <div className={styles.space}>
        <i
          className={styles.bar}
          style={{ bottom: `${bottom}%`, height: `${height}%`, backgroundColor: `var(${colour})` }}
        />
        <span className={styles.value} style={{ bottom: `${bottom + height}%` }}>
          {value}
        </span>
      </div>
      <span className={styles.label} title={label}>
        {label}
      </span>
    </div>
  );
}
