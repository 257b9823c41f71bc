import type { ReactNode } from "react";
import { useState } from "react";
import { Legend, StackedBar } from "@/charts/bars/stacked_bar.tsx";
import { ACTIVITIES, ACTIVITY_NAMES, ACTIVITY_TOKENS, isHatched } from "@/charts/colour.ts";
import { OverviewUsageDocument, type OverviewUsageQuery } from "@/data/gql/graphql.ts";
import type { Asked } from "@/data/queries.ts";
import { bytes } from "@/format/bytes.ts";
import { threadTime, threadTimeInWords, threadUnit } from "@/format/duration.ts";
import { count, share, shortCount } from "@/format/number.ts";
import type { Days } from "@/panels/range/range.ts";
import { SheetTable } from "@/panels/take_away/sheet_table.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { Empty, Loaded, Section } from "@/ui/panel.tsx";
import { relativeChange } from "./arithmetic.ts";
import styles from "./overview.module.css";

type Statistics = OverviewUsageQuery["viewer"]["account"]["statistics"];

interface UsageProps {
  days: Days;
  usage: Asked<OverviewUsageQuery>;
  before: Asked<OverviewUsageQuery>;
}

/** The thread time by cause, and the totals of the days. */
export function UsagePanel({ days, usage, before }: UsageProps) {
  return (
    <Loaded name="The usage" query={usage}>
      {({ viewer }) => (
        <Shown
          days={days}
          statistics={viewer.account.statistics}
          before={days.before === null ? null : (before.data?.data.viewer.account.statistics ?? null)}
        />
      )}
    </Loaded>
  );
}

interface ShownProps {
  days: Days;
  statistics: Statistics;
  before: Statistics | null;
}

function Shown({ days, statistics, before }: ShownProps) {
  const [isTable, setTable] = useState(false);
  const { usage } = statistics;
  const unit = threadUnit(usage.threadSeconds);
  const seconds = new Map(usage.causes.map(({ cause, seconds }) => [cause, seconds]));
  const parts = ACTIVITIES.map((activity) => ({
    id: activity,
    label: ACTIVITY_NAMES[activity],
    value: seconds.get(activity) ?? 0,
    colour: ACTIVITY_TOKENS[activity],
    isHatched: isHatched(activity),
    isOutlined: activity === "IDLE",
  }));
  const computed =
    usage.utilization === null
      ? "their use is unknown"
      : `${share(usage.utilization)} of them computed something`;
  const title =
    usage.threadSeconds > 0
      ? `${threadTimeInWords(usage.threadSeconds)}, ${computed}`
      : `No cluster offered a thread in ${days.words}`;
  const sheet = {
    head: ["cause", "thread seconds"],
    rows: [
      ...parts.filter(({ value }) => value > 0).map(({ label, value }) => [label, value] as const),
      ["Total", usage.threadSeconds] as const,
    ],
  };
  return (
    <Section
      title={title}
      sub={usage.isComplete ? days.words : `${days.words}, incomplete: impossible reports were cut`}
      actions={
        <TakeAway
          name="thread-time"
          document={OverviewUsageDocument}
          variables={{ from: days.from, to: days.to }}
          sheet={sheet}
          isTable={isTable}
          onTable={setTable}
        />
      }
    >
      {usage.threadSeconds <= 0 && <Empty title="There is nothing to split" />}
      {usage.threadSeconds > 0 &&
        (isTable ? (
          <SheetTable label={title} sheet={sheet} format={(value) => threadTime(value, unit)} />
        ) : (
          <>
            <StackedBar
              label={title}
              parts={parts}
              size="large"
              format={(value) => `${threadTime(value, unit)} · ${share(value / usage.threadSeconds)}`}
            />
            <Legend parts={parts} format={(value) => share(value / usage.threadSeconds)} />
          </>
        ))}
      <Totals now={statistics} before={before} />
    </Section>
  );
}

function Totals({ now, before }: { now: Statistics; before: Statistics | null }) {
  const change = (of: (statistics: Statistics) => number) => before && relativeChange(of(now), of(before));
  const absolute = (of: (statistics: Statistics) => number) => before && `${count(of(before))} before`;
  return (
    <dl className={styles.totals}>
      <Total name="Clusters" note={absolute(({ clusters }) => clusters)}>
        {count(now.clusters)}
      </Total>
      <Total name="Cluster time" note={change(({ usage }) => usage.threadSeconds)}>
        {threadTime(now.usage.threadSeconds)}
      </Total>
      <Total name="Compute time" note={change(({ usage }) => usage.computeSeconds)}>
        {threadTime(now.usage.computeSeconds)}
      </Total>
      <Total
        name="Utilisation"
        note={before && before.usage.utilization !== null && `${share(before.usage.utilization)} before`}
      >
        {now.usage.utilization === null ? "unknown" : share(now.usage.utilization)}
      </Total>
      <Total name="Tasks" note={change(({ usage }) => usage.tasks)}>
        {shortCount(now.usage.tasks)}
      </Total>
      <Total name="Workers" note={change(({ usage }) => usage.workers)}>
        {count(now.usage.workers)}
      </Total>
      <Total name="Size of results" note={change(({ usage }) => usage.bytes)}>
        {bytes(now.usage.bytes)}
      </Total>
      <Total name="Errors" note={absolute(({ usage }) => usage.errors)}>
        {count(now.usage.errors)}
      </Total>
    </dl>
  );
}

function Total({ name, note, children }: { name: string; note: ReactNode; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className={styles.totalValue}>{children}</dd>
      <dd className="faint small num">{note}</dd>
    </div>
  );
}
