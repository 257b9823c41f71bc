import type { ReactNode } from "react";
import { StackedBar } from "@/charts/bars/stacked_bar.tsx";
import { ACTIVITY_NAMES, ACTIVITY_TOKENS, type Activity, isHatched } from "@/charts/colour.ts";
import type { ClusterCostQuery } from "@/data/gql/graphql.ts";
import { share } from "@/format/number.ts";
import { clock, day } from "@/format/time.ts";
import styles from "./cost.module.css";
import { amountFormat, type Cost, causeRows, functionRows, hourRows } from "./costs.ts";
import { Division } from "./division.tsx";

type Cluster = NonNullable<ClusterCostQuery["cluster"]>;

interface PartsProps {
  cluster: Cluster;
  cost: Cost;
}

interface ByCauseProps extends PartsProps {
  choice: ReactNode;
  /** The prices, between the bar and the table. */
  children: ReactNode;
}

/** The cost by what the threads did. The parts add up to the headline. */
export function ByCause({ cluster: { id, usage }, cost, choice, children }: ByCauseProps) {
  const rows = causeRows(usage, cost);
  const format = amountFormat(cost);
  const title = headline(cost);
  const isDivided = usage.costs.length > 1;
  return (
    <Division
      cluster={id}
      cost={cost}
      title={title}
      level={2}
      sub="whole run"
      noun="Activity"
      times={isDivided ? [] : [{ head: "Thread time", sum: usage.threadSeconds }]}
      actions={choice}
      lines={rows.map(({ cause, amount, seconds }) => ({
        id: cause,
        text: ACTIVITY_NAMES[cause],
        name: (
          <span className={styles.name}>
            <i
              className={`${styles.swatch} ${cause === "IDLE" || isHatched(cause) ? styles.outlined : ""}`}
              style={{ background: `var(${ACTIVITY_TOKENS[cause]})` }}
            />
            {ACTIVITY_NAMES[cause]}
          </span>
        ),
        amount,
        seconds: isDivided ? [] : [seconds],
        colour: ACTIVITY_TOKENS[cause],
      }))}
    >
      <div className={styles.bar}>
        <StackedBar
          label={title}
          parts={rows.map(({ cause, amount }) => ({
            id: cause,
            label: ACTIVITY_NAMES[cause],
            value: amount,
            colour: ACTIVITY_TOKENS[cause],
            isHatched: isHatched(cause),
            isOutlined: cause === "IDLE",
          }))}
          size="large"
          format={(value) => `${format(value)} · ${share(value / cost.amount)}`}
        />
      </div>
      {children}
    </Division>
  );
}

function headline(cost: Cost): string {
  const amount = (cause: Activity) => cost.causes.find((part) => part.cause === cause)?.amount ?? 0;
  const text = `${amountFormat(cost)(cost.amount)}${cost.basis === "ESTIMATED" ? " est." : ""}`;
  const parts = [
    [amount("IDLE"), "for idle threads"],
    [amount("FAILED"), "for work that failed"],
  ] as const;
  const findings = parts
    .filter(([part]) => part > 0)
    .map(([part, words]) => `${share(part / cost.amount)} ${words}`);
  return findings.length > 0 ? `${text}: ${findings.join(", ")}` : text;
}

/** The `first` of the document. */
const MOST = 1000;
const NONE = "no function";

/** The cost of computing each function, and the rest that belongs to none. */
export function ByFunction({ cluster: { id, functions }, cost }: PartsProps) {
  return (
    <Division
      cluster={id}
      cost={cost}
      title="By function"
      level={3}
      sub="computing tasks that succeeded"
      noun="Function"
      times={[{ head: "Compute time", sum: null }]}
      lines={functionRows(functions, cost).map(({ prefix, amount, seconds }) => ({
        id: `${prefix === null} ${prefix}`,
        text: prefix ?? NONE,
        name: prefix === null ? <span className="muted">{NONE}</span> : <code title={prefix}>{prefix}</code>,
        amount,
        seconds: [seconds],
        colour: prefix === null ? "--act-idle" : "--act-cpu",
      }))}
      note={
        <p className={styles.note}>
          To no function belong idle threads, failed attempts, Dask's own work
          {functions.length === MOST &&
            `, and here the functions beyond the ${MOST} with the longest compute time`}
          . Spans and workers have no cost of their own: several spans share the threads at a time, and usage
          is reported for the cluster as a whole.
        </p>
      }
    />
  );
}

/** The cost of each hour of the cluster's life. */
export function ByHour({ cluster: { id, usageHours }, cost }: PartsProps) {
  // Null if there are too many for one response, which the page says above.
  if (!usageHours) return null;
  const rows = hourRows(usageHours, cost);
  const sum = (of: "threadSeconds" | "computeSeconds") => rows.reduce((total, row) => total + row[of], 0);
  return (
    <Division
      cluster={id}
      cost={cost}
      title="By hour"
      level={3}
      sub="UTC"
      noun="Hour"
      times={[
        { head: "Thread time", sum: sum("threadSeconds") },
        { head: "Compute time", sum: sum("computeSeconds") },
      ]}
      lines={rows.map(({ start, amount, threadSeconds, computeSeconds }) => ({
        id: start,
        text: start,
        name: `${day(start)}, ${clock(start)}`,
        amount,
        seconds: [threadSeconds, computeSeconds],
        colour: "--act-cpu",
      }))}
    />
  );
}
