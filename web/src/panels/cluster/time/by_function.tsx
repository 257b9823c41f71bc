import { useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { StackedBar } from "@/charts/bars/stacked_bar.tsx";
import {
  ACTIVITIES,
  ACTIVITY_NAMES,
  ACTIVITY_TOKENS,
  activityOf,
  functionTokens,
  OTHERS,
} from "@/charts/colour.ts";
import { ClusterTimeDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { byteExponent, bytes, bytesIn, byteUnit } from "@/format/bytes.ts";
import { threadTime, threadUnit } from "@/format/duration.ts";
import { count, share, shortCount, threeDigits } from "@/format/number.ts";
import { SheetTable } from "@/panels/take_away/sheet_table.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { useSetClusterSearch } from "@/routes/cluster/use_cluster_search.ts";
import { Icon } from "@/ui/icon.tsx";
import { Empty, Loaded, Section, Withheld } from "@/ui/panel.tsx";
import { Segmented } from "@/ui/segmented.tsx";
import { type FineTable, type FunctionTime, fineSheet, spread, withOthers } from "./spread.ts";
import styles from "./time.module.css";

const ROUTE = "/$account/clusters/$number";
const MEASURES = [
  { value: "seconds", label: "Time" },
  { value: "bytes", label: "Bytes" },
  { value: "count", label: "Count" },
] as const;

type Measure = (typeof MEASURES)[number]["value"];

/** The time of tasks by function and activity, as Dask's fine performance metrics have it. */
export function ByFunction({ id }: { id: string }) {
  const search = useSearch({ from: ROUTE });
  const set = useSetClusterSearch();
  const measure: Measure = MEASURES.find(({ value }) => value === search.by)?.value ?? "seconds";
  const [isTable, setTable] = useState(false);
  const variables = { clusters: [id], from: search.from ?? null, to: search.to ?? null, unit: measure };
  const query = useAsk(ClusterTimeDocument, variables, { keepsPrevious: true });
  const answer = query.data?.data.viewer.account.fineMetrics;
  const sheet = answer && fineSheet(answer);
  return (
    <Section
      level={3}
      title="By function"
      sub={search.from ? "spans whose tasks arrived in the chosen part" : "tasks only"}
      actions={
        <>
          <Segmented
            label="Measure"
            options={MEASURES}
            value={measure}
            onChange={(by) => set({ by: by === "seconds" ? undefined : by })}
          />
          {sheet && sheet.rows.length > 0 && (
            <TakeAway
              name="time-by-function"
              document={ClusterTimeDocument}
              variables={variables}
              sheet={sheet}
              isTable={isTable}
              onTable={setTable}
            />
          )}
        </>
      }
    >
      <Loaded name="The time of functions" query={query}>
        {({ viewer }) => {
          const table = viewer.account.fineMetrics;
          if (!table) return null;
          if (table.clustersWithoutMetrics > 0 && table.rows.length === 0) {
            return (
              <Withheld title="Dask did not report fine metrics">They need Dask 2023.7 or newer.</Withheld>
            );
          }
          if (isTable && sheet && sheet.rows.length > 0)
            return <SheetTable label="Time by function" sheet={sheet} format={threeDigits} />;
          return (
            <Rows
              table={table}
              measure={measure}
              open={search.open}
              onOpen={(open) => set({ open: open === search.open ? undefined : open })}
            />
          );
        }}
      </Loaded>
    </Section>
  );
}

interface RowsProps {
  table: FineTable;
  measure: Measure;
  open: string | undefined;
  onOpen(name: string): void;
}

function formatOf(measure: Measure, largest: number): (value: number) => string {
  if (measure === "bytes") {
    const exponent = byteExponent(largest);
    return (value) => `${bytesIn(value, exponent)}\u00a0${byteUnit(exponent)}`;
  }
  if (measure === "count") return shortCount;
  const unit = threadUnit(largest);
  return (value) => threadTime(value, unit);
}

function Rows({ table, measure, open, onOpen }: RowsProps) {
  const { functions, total, beside } = spread(table);
  if (functions.length === 0) return <Empty title="No task has finished in this part" />;
  const shown = withOthers(functions);
  const largest = Math.max(...shown.map((one) => one.total));
  const format = formatOf(measure, total);
  const colours = functionTokens(functions.map((one) => one.function));
  const cut = table.rowCount - table.rows.length;
  return (
    <>
      <div className={`${styles.row} ${styles.head}`} aria-hidden="true">
        <span />
        <span>Function</span>
        <span />
        <span className={styles.end}>{MEASURES.find(({ value }) => value === measure)?.label}</span>
        <span className={styles.end}>Share</span>
      </div>
      {shown.map((one) => (
        <FunctionRow
          key={one.function}
          one={one}
          whole={largest}
          total={total}
          colour={colours.get(one.function) ?? OTHERS}
          format={format}
          isOpen={open === one.function}
          onOpen={onOpen}
        />
      ))}
      <div className={`${styles.row} ${styles.sum}`}>
        <span />
        <span>All {count(functions.length)} functions</span>
        <span />
        <span className={styles.end}>{format(total)}</span>
        <span className={styles.end}>{share(1)}</span>
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
    </>
  );
}

interface FunctionRowProps {
  one: FunctionTime;
  whole: number;
  total: number;
  colour: `--${string}`;
  format(value: number): string;
  isOpen: boolean;
  onOpen(name: string): void;
}

function FunctionRow({ one, whole, total, colour, format, isOpen, onOpen }: FunctionRowProps) {
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
        <StackedBar label={one.function} parts={parts} whole={whole} format={format} />
        <span className={styles.end}>{format(one.total)}</span>
        <span className={`${styles.end} muted`}>{share(one.total / total)}</span>
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
            </div>
          );
        })}
    </>
  );
}
