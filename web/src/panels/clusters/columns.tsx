import type { ReactNode } from "react";
import type { ClusterSumsQuery } from "@/data/gql/graphql.ts";
import { bytes } from "@/format/bytes.ts";
import { duration, runningTime, type ThreadUnit, threadTimes, threadUnit } from "@/format/duration.ts";
import { costText } from "@/format/money.ts";
import { count, counted, share } from "@/format/number.ts";
import { ago, clock, dayAndClock, shortDayAndClock } from "@/format/time.ts";
import { Chip } from "@/ui/chip.tsx";
import type { Column } from "@/ui/table.tsx";
import { ClusterLink } from "./cluster_link.tsx";
import styles from "./clusters.module.css";
import { COLUMN_NAMES, type ColumnName } from "./column_choice.ts";
import { FLAG_NAMES } from "./flags.ts";
import { State } from "./row_state.tsx";
import { clusterName, finishedOf, type Row, shortNumber, shownWorkers, sumsOfRows } from "./rows.ts";
import { Used } from "./used.tsx";

export type Sums = ClusterSumsQuery["viewer"]["account"]["clusters"];

interface ColumnContext {
  account: string;
  sums: Sums | null;
  /** The sums of what only the rows have. Null until all rows are loaded. */
  own: ReturnType<typeof sumsOfRows> | null;
  unit: ThreadUnit;
  /** Returns thread time without the unit, which the heads have. */
  time(seconds: number): string;
  isEstimated: boolean;
}

type Maker = (context: ColumnContext) => Omit<Column<Row>, "id" | "head"> & { head?: ReactNode };

const NONE = <span className="faint">–</span>;
const zero = (value: number): ReactNode =>
  value === 0 ? <span className="faint">0</span> : <span className={styles.bad}>{count(value)}</span>;

const MAKERS: Record<ColumnName, Maker> = {
  state: ({ sums }) => ({
    width: "112px",
    cell: (row) => <State row={row} />,
    sum: sums && counted(sums.totalCount, "cluster"),
  }),
  name: ({ account }) => ({
    width: "minmax(104px, 3fr)",
    cell: (row) => (
      <ClusterLink
        account={account}
        number={row.number}
        className={styles.name}
        title={`${clusterName(row)} #${row.number}`}
      >
        <span className={styles.word}>{clusterName(row)}</span>
        <span className="faint num">{shortNumber(row.number)}</span>
      </ClusterLink>
    ),
  }),
  user: ({ own }) => ({
    width: "minmax(76px, 1fr)",
    cell: (row) => row.user?.name ?? <span className="faint">left</span>,
    sum: own?.users && counted(own.users, "user"),
  }),
  started: () => ({
    width: "minmax(94px, 1fr)",
    sort: "started",
    cell: (row) => <Time at={row.startedAt} />,
  }),
  lasted: () => ({
    width: "82px",
    align: "end",
    sort: "lasted",
    cell: (row) => duration(row.durationSeconds),
  }),
  workers: ({ own }) => ({
    width: "62px",
    align: "end",
    cell: (row) => <Workers row={row} />,
    sum: own && count(own.workers),
  }),
  memory: () => ({ width: "64px", align: "end", cell: (row) => <Memory now={row.now} /> }),
  threads: ({ sums, unit, time }) => ({
    head: `Thread-${unit}`,
    width: unit === "h" ? "72px" : "84px",
    align: "end",
    sort: "threads",
    cell: (row) => time(row.totals.threadSeconds),
    sum: sums && time(sums.aggregates.threadSeconds),
  }),
  used: ({ sums }) => ({
    width: "116px",
    cell: (row) => <Used usage={row.usage} />,
    sum: sums?.aggregates.usage ? <Used usage={sums.aggregates.usage} /> : NONE,
  }),
  cost: ({ sums, isEstimated }) => ({
    head: isEstimated ? "Cost, est." : "Cost",
    width: "86px",
    align: "end",
    sort: "cost",
    cell: (row) => costText(row.usage.costs)?.text ?? NONE,
    sum: (sums?.aggregates.usage && costText(sums.aggregates.usage.costs)?.text) ?? NONE,
  }),
  finished: ({ own }) => ({
    width: "108px",
    align: "end",
    cell: (row) => <Finished row={row} />,
    sum: own?.finished && `${count(own.finished.finished)} of ${count(own.finished.of)}`,
  }),
  errors: ({ sums }) => ({
    width: "48px",
    align: "end",
    sort: "errors",
    cell: (row) => zero(row.totals.errors),
    sum: sums && count(sums.aggregates.errors),
  }),
  flags: () => ({ width: "minmax(64px, 1fr)", cell: (row) => <Flags row={row} /> }),
  ended: () => ({
    width: "minmax(106px, 1fr)",
    sort: "ended",
    cell: (row) => (row.endedAt ? <Time at={row.endedAt} /> : NONE),
  }),
  seen: () => ({ width: "92px", align: "end", sort: "seen", cell: (row) => ago(row.lastSeenAt) }),
  idle: () => ({
    width: "100px",
    align: "end",
    cell: (row) => (row.state === "IDLE" ? runningTime(row.idleSeconds) : NONE),
  }),
  tasks: ({ sums }) => ({
    width: "84px",
    align: "end",
    sort: "tasks",
    cell: (row) => count(row.totals.tasks),
    sum: sums && count(sums.aggregates.tasks),
  }),
  failed: ({ sums }) => ({
    width: "88px",
    align: "end",
    cell: (row) => zero(row.totals.tasksErred),
    sum: sums && count(sums.aggregates.tasksErred),
  }),
  compute: ({ sums, unit, time }) => ({
    head: `Compute, ${unit}`,
    width: "100px",
    align: "end",
    sort: "compute",
    cell: (row) => time(row.totals.computeSeconds),
    sum: sums && time(sums.aggregates.computeSeconds),
  }),
  joined: ({ sums }) => ({
    width: "138px",
    align: "end",
    cell: (row) => count(row.totals.workers),
    sum: sums && count(sums.aggregates.workers),
  }),
  data: ({ sums }) => ({
    width: "92px",
    align: "end",
    cell: (row) => bytes(row.totals.bytes),
    sum: sums && bytes(sums.aggregates.bytes),
  }),
  tags: () => ({ width: "minmax(120px, 1fr)", cell: (row) => <Tags row={row} /> }),
  notes: () => ({
    width: "minmax(120px, 1fr)",
    cell: (row) => (row.notes ? <Notes text={row.notes.text} /> : NONE),
  }),
  reason: () => ({ width: "minmax(120px, 1fr)", cell: (row) => row.closeReason ?? NONE }),
  number: () => ({ width: "140px", align: "end", cell: (row) => row.number }),
};

/** Returns the columns of the list. The sums are over all clusters that pass the filter. */
export function clusterColumns(
  names: readonly ColumnName[],
  account: string,
  sums: Sums | null,
  rows: readonly Row[],
) {
  const largest = Math.max(sums?.aggregates.threadSeconds ?? 0, ...rows.slice(0, 100).map(threadSeconds));
  const costs = [...(sums?.aggregates.usage?.costs ?? []), ...rows.flatMap((row) => row.usage.costs)];
  const isEstimated = costs.some(({ basis }) => basis === "ESTIMATED");
  const own = sums?.totalCount === rows.length ? sumsOfRows(rows) : null;
  const times = threadTimes(largest);
  const time = (seconds: number) => times(seconds).replace(/\u00a0[a-z]+$/, "");
  const context = { account, sums, own, unit: threadUnit(largest), time, isEstimated };
  return names.map((id): Column<Row> => ({ id, head: COLUMN_NAMES[id], ...MAKERS[id](context) }));
}

const threadSeconds = (row: Row) => row.totals.threadSeconds;

function Time({ at }: { at: string }) {
  const text = shortDayAndClock(at);
  const time = clock(at);
  return (
    <span className="num" title={dayAndClock(at)}>
      {text.slice(0, -time.length)}
      <span className="faint">{time}</span>
    </span>
  );
}

/** The workers and their threads: now, or at most, once the cluster has ended. */
function Workers({ row }: { row: Row }) {
  const workers = shownWorkers(row);
  const threads = row.now?.threads ?? row.totals.peakThreads;
  const each = threads / workers;
  return (
    <span title={row.now ? "now" : "at most"}>
      {count(workers)}
      {workers > 0 && Number.isInteger(each) && <span className="faint"> × {each}</span>}
    </span>
  );
}

function Memory({ now }: Pick<Row, "now">) {
  if (!now) return NONE;
  if (!now.memoryLimit) return bytes(now.memoryUsed);
  const part = now.memoryUsed / now.memoryLimit;
  const title = `${bytes(now.memoryUsed)} of ${bytes(now.memoryLimit)}`;
  return (
    <span title={title} className={part >= 0.8 ? styles.notice : undefined}>
      {share(part)}
    </span>
  );
}

function Finished({ row }: { row: Row }) {
  const answer = finishedOf(row);
  if (!answer) return NONE;
  const { finished, of } = answer;
  const isLess = of === null ? row.totals.errors > 0 : finished < of;
  const tone = isLess && row.state !== "RUNNING" ? styles.bad : "muted";
  return (
    <span className={tone} title={row.answers?.finished.headline ?? undefined}>
      {of === null ? count(finished) : `${count(finished)} of ${count(of)}`}
    </span>
  );
}

const SHOWN_FLAGS = 1;

export function Flags({ row }: { row: Row }) {
  const flags = row.flags.nodes;
  return (
    <span className={styles.chips}>
      {flags.slice(0, SHOWN_FLAGS).map(({ kind, text }) => (
        <span key={kind} title={text}>
          <Chip tone="notice">{FLAG_NAMES[kind]}</Chip>
        </span>
      ))}
      {flags.length > SHOWN_FLAGS && (
        <span className="faint small" title={flags.map(({ text }) => text).join("\n")}>
          +{flags.length - SHOWN_FLAGS}
        </span>
      )}
    </span>
  );
}

function Notes({ text }: { text: string | null }) {
  if (text === null) return <span className="faint">not readable</span>;
  return <span title={text}>{text}</span>;
}

function Tags({ row }: { row: Row }) {
  return (
    <span className={styles.chips}>
      {row.tags.map(({ key, value }) => (
        <Chip tone="tag" key={key}>
          {value ? `${key}:${value}` : key}
        </Chip>
      ))}
    </span>
  );
}
