import type { ReactNode } from "react";
import { useState } from "react";
import { Legend, StackedBar } from "@/charts/bars/stacked_bar.tsx";
import { ACTIVITIES, ACTIVITY_NAMES, ACTIVITY_TOKENS, isHatched } from "@/charts/colour.ts";
import { OverviewUsageDocument, type OverviewUsageQuery } from "@/data/gql/graphql.ts";
import { type Asked, useAsk } from "@/data/queries.ts";
import { bytes } from "@/format/bytes.ts";
import { threadTime, threadTimeInWords, threadTimes } from "@/format/duration.ts";
import { count, share, shortCount } from "@/format/number.ts";
import { day } from "@/format/time.ts";
import { type Days, isoDay } from "@/panels/range/range.ts";
import { SheetTable } from "@/panels/take_away/sheet_table.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import type { OverviewSearch } from "@/routes/search_types.ts";
import { Empty, Loaded, Section } from "@/ui/panel.tsx";
import { Segmented } from "@/ui/segmented.tsx";
import { relativeChange } from "./arithmetic.ts";
import styles from "./overview.module.css";

type Statistics = OverviewUsageQuery["viewer"]["account"]["statistics"];

interface UsageProps {
  days: Days;
  usage: Asked<OverviewUsageQuery>;
  before: Asked<OverviewUsageQuery>;
  search: OverviewSearch;
  onSearch(search: OverviewSearch): void;
}

/** The thread time by cause, and the totals of the days, or of all since the account was created. */
export function UsagePanel({ days, usage, before, search, onSearch }: UsageProps) {
  const createdAt = usage.data?.data.viewer.account.createdAt;
  const isOlder = createdAt !== undefined && days.from !== null && isoDay(Date.parse(createdAt)) < days.from;
  const isAll = isOlder && search.usage === "all";
  const all = useAsk(OverviewUsageDocument, { from: null, to: days.to }, { enabled: isAll });
  const choose = (value: "days" | "all") => {
    const { usage: _, ...rest } = search;
    onSearch(value === "all" ? { ...rest, usage: value } : rest);
  };
  const since = isOlder ? `Since ${day(createdAt)}` : null;
  return (
    <Loaded name="The usage" query={isAll ? all : usage}>
      {({ viewer }) => (
        <Shown
          days={
            isAll && since
              ? { ...days, from: null, before: null, words: `the days since ${day(createdAt)}` }
              : days
          }
          statistics={viewer.account.statistics}
          before={
            isAll || days.before === null ? null : (before.data?.data.viewer.account.statistics ?? null)
          }
          choice={
            since && (
              <Segmented
                label="Period of the thread time"
                value={isAll ? "all" : "days"}
                onChange={choose}
                options={[
                  { value: "days", label: days.words },
                  { value: "all", label: since },
                ]}
              />
            )
          }
        />
      )}
    </Loaded>
  );
}

interface ShownProps {
  days: Days;
  statistics: Statistics;
  before: Statistics | null;
  choice: ReactNode;
}

function Shown({ days, statistics, before, choice }: ShownProps) {
  const [isTable, setTable] = useState(false);
  const { usage } = statistics;
  const times = threadTimes(usage.threadSeconds);
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
      sub={usage.isComplete ? days.words : `${days.words}, incomplete: values were clamped`}
      actions={
        <span className={styles.tools}>
          {choice}
          <TakeAway
            name="thread-time"
            document={OverviewUsageDocument}
            variables={{ from: days.from, to: days.to }}
            sheet={sheet}
            isTable={isTable}
            onTable={setTable}
          />
        </span>
      }
    >
      {usage.threadSeconds <= 0 && <Empty title="There is nothing to split" />}
      {usage.threadSeconds > 0 &&
        (isTable ? (
          <SheetTable label={title} sheet={sheet} format={times} />
        ) : (
          <>
            <StackedBar
              label={title}
              parts={parts}
              size="large"
              format={(value) => `${times(value)} · ${share(value / usage.threadSeconds)}`}
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
