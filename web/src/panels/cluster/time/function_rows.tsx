import type { ReactNode } from "react";
import { StackedBar } from "@/charts/bars/stacked_bar.tsx";
import {
  ACTIVITIES,
  ACTIVITY_NAMES,
  ACTIVITY_TOKENS,
  activityOf,
  functionTokens,
  OTHERS,
} from "@/charts/colour.ts";
import type { ClusterTimeVersusQuery } from "@/data/gql/graphql.ts";
import { bytes } from "@/format/bytes.ts";
import { count, counted, share, signed } from "@/format/number.ts";
import { shortNumber } from "@/panels/clusters/rows.ts";
import { Icon } from "@/ui/icon.tsx";
import { Empty } from "@/ui/panel.tsx";
import { formatOf, MEASURES, type Measure } from "./measure.ts";
import { type FineTable, type FunctionTime, spread, withOthers } from "./spread.ts";
import styles from "./time.module.css";
import { compareFunctions, type Versus } from "./versus.ts";

type Comparison = NonNullable<ClusterTimeVersusQuery["viewer"]["account"]["compare"]>;

interface FunctionRowsProps {
  table: FineTable;
  measure: Measure;
  /** The comparison with another run, and its number. Null without one. */
  compared: { comparison: Comparison; number: number } | null;
  open: string | undefined;
  onOpen(name: string): void;
}

/** The functions with what they spent, the largest first. They add up to the last row. */
export function FunctionRows({ table, measure, compared, open, onOpen }: FunctionRowsProps) {
  const { functions, total, beside } = spread(table);
  if (functions.length === 0) return <Empty title="No task has finished in this part" />;
  const shown = withOthers(functions);
  const versus = compared && compareFunctions(compared.comparison, shown, functions);
  const bases = [...(versus?.byRow.values() ?? [])].map(({ base }) => base);
  const largest = Math.max(...shown.map((one) => one.total), ...bases);
  const format = formatOf(measure, total);
  const colours = functionTokens(functions.map((one) => one.function));
  const cut = table.rowCount - table.rows.length;
  const difference = (one: Versus | undefined, of: RowKind = "function") =>
    versus && <Difference versus={one} total={total} format={format} of={of} />;
  return (
    <div className={versus ? styles.compared : undefined}>
      <div className={`${styles.row} ${styles.head}`} aria-hidden="true">
        <span />
        <span>Function</span>
        <span />
        <span className={styles.end}>{MEASURES.find(({ value }) => value === measure)?.label}</span>
        <span className={styles.end}>Share</span>
        {versus && <span className={styles.end}>vs {shortNumber(compared.number)}</span>}
      </div>
      {shown.map((one) => (
        <FunctionRow
          key={one.function}
          one={one}
          whole={largest}
          total={total}
          colour={colours.get(one.function) ?? OTHERS}
          format={format}
          mark={versus?.byRow.get(one.function)?.base}
          difference={difference(versus?.byRow.get(one.function))}
          differenceOf={(name) => difference(versus?.byActivity(one.function).get(name), "detail")}
          isOpen={open === one.function}
          onOpen={onOpen}
        />
      ))}
      {versus && versus.missing.functions > 0 && (
        <div className={styles.row}>
          <span />
          <span className="muted">{counted(versus.missing.functions, "function")} of the other run only</span>
          <span />
          <span className={styles.end}>{format(0)}</span>
          <span className={`${styles.end} muted`}>{share(0)}</span>
          {difference(versus.missing)}
        </div>
      )}
      <div className={`${styles.row} ${styles.sum}`}>
        <span />
        <span>All {count(functions.length)} functions</span>
        <span />
        <span className={styles.end}>{format(total)}</span>
        <span className={styles.end}>{share(1)}</span>
        {difference(versus?.total, "sum")}
      </div>
      {beside.length > 0 && (
        <p className={styles.beside}>
          <i className={styles.swatch} style={{ background: "var(--act-network)" }} />
          <span>
            Beside the tasks, so not in the sum:{" "}
            {beside
              .slice(0, 4)
              .map(({ name, value }) => `${measure === "bytes" ? bytes(value) : format(value)} ${name}`)
              .join(", ")}
            {beside.length > 4 && ` and ${beside.length - 4} more`}.
          </span>
        </p>
      )}
      {cut > 0 && <p className="faint small">{count(cut)} of the smallest rows are not in this table.</p>}
    </div>
  );
}

interface DifferenceProps {
  versus: Versus | undefined;
  total: number;
  format(value: number): string;
  of: RowKind;
}

type RowKind = "function" | "detail" | "sum";

/** The part of the whole from which more than before is coloured. */
const MUCH = 0.05;

function Difference({ versus, total, format, of }: DifferenceProps) {
  const delta = versus?.delta ?? 0;
  const look = { function: delta > total * MUCH ? styles.more : "muted", detail: "", sum: "" }[of];
  return <span className={`${styles.end} ${look}`}>{signed(delta, format)}</span>;
}

interface FunctionRowProps {
  one: FunctionTime;
  whole: number;
  total: number;
  colour: `--${string}`;
  format(value: number): string;
  /** The value of the other run, and the difference to it. */
  mark: number | undefined;
  difference: ReactNode;
  differenceOf(activity: string): ReactNode;
  isOpen: boolean;
  onOpen(name: string): void;
}

function FunctionRow(props: FunctionRowProps) {
  const { one, whole, total, colour, format, isOpen, onOpen } = props;
  const parts = ACTIVITIES.flatMap((activity) => {
    const value = one.byActivity.get(activity) ?? 0;
    const label = ACTIVITY_NAMES[activity];
    return value > 0 ? [{ id: activity, label, value, colour: ACTIVITY_TOKENS[activity] }] : [];
  });
  const opens = one.measured.length > 0;
  return (
    <>
      <button
        type="button"
        className={styles.row}
        aria-expanded={opens ? isOpen : undefined}
        disabled={!opens}
        onClick={() => onOpen(one.function)}
      >
        <span className="faint">{opens && <Icon name={isOpen ? "down" : "right"} />}</span>
        <span className={styles.name}>
          <i className={styles.swatch} style={{ background: `var(${colour})` }} />
          <span className="truncated" title={one.function}>
            {one.function}
          </span>
        </span>
        <StackedBar
          label={one.function}
          parts={parts}
          whole={whole}
          mark={props.mark ?? null}
          format={format}
        />
        <span className={styles.end}>{format(one.total)}</span>
        <span className={`${styles.end} muted`}>{share(one.total / total)}</span>
        {props.difference}
      </button>
      {isOpen &&
        one.measured.map(({ name, value }) => {
          const activity = activityOf(name);
          const part = { id: name, label: name, value, colour: ACTIVITY_TOKENS[activity] };
          return (
            <div key={name} className={`${styles.row} ${styles.detail}`}>
              <span />
              <code className="truncated">{name}</code>
              <StackedBar label={name} parts={[part]} whole={whole} format={format} />
              <span className={styles.end}>{format(value)}</span>
              <span className={styles.end}>{share(value / total)}</span>
              {props.differenceOf(name)}
            </div>
          );
        })}
    </>
  );
}
