import { useState } from "react";
import { useAccount } from "@/data/account.ts";
import { ErrorGroupDetailDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { count } from "@/format/number.ts";
import { ago, dayAndClock } from "@/format/time.ts";
import { type Days, fixedRange } from "@/panels/range/range.ts";
import { CopyLink } from "@/panels/take_away/copy_link.tsx";
import { SheetTable } from "@/panels/take_away/sheet_table.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { Empty, Loaded, Section, Skeleton } from "@/ui/panel.tsx";
import { Beginning } from "./beginning.tsx";
import styles from "./errors.module.css";
import { Fact } from "./fact.tsx";
import { ORIGIN_NAMES, trendOf } from "./filter.ts";
import { groupTitle, StatusChip } from "./group_list.tsx";
import { OccurrencesPanel } from "./occurrences.tsx";
import { StatusButtons } from "./status_buttons.tsx";
import { Trend, trendText } from "./trend.tsx";
import { type Affected, affected, useOccurrences } from "./use_occurrences.ts";

interface GroupDetailProps {
  id: string;
  days: Days;
  now: number;
}

/** One group of similar errors: since when, what changed then, the traceback and the places. */
export function GroupDetail({ id, days, now }: GroupDetailProps) {
  const account = useAccount();
  const variables = { id, ...trendOf(days) };
  const query = useAsk(ErrorGroupDetailDocument, variables, { refetchSeconds: 60 });
  const occurrences = useOccurrences(id);
  const [isTable, setTable] = useState(false);
  return (
    <Loaded name="The error" query={query} skeleton={<Skeleton rows={8} columns={4} />}>
      {({ node }) => {
        if (!node || !("occurrenceCount" in node)) {
          return (
            <Empty title="There is no such group of errors">
              Its errors were deleted, or it belongs to another account.
            </Empty>
          );
        }
        const prefix = occurrences.rows[0]?.taskGroup?.prefix;
        const isWeekly = variables.bucket === "WEEK";
        const sheet = {
          head: [isWeekly ? "week from" : "day", "errors"],
          rows: (node.trend ?? []).map(
            ({ start, occurrences }) => [start.slice(0, 10), occurrences] as const,
          ),
        };
        return (
          <>
            <div className={styles.detailHead}>
              <div className="grow">
                <h2 className={styles.detailTitle}>
                  <span>
                    {node.type ?? "Class unknown"}
                    {prefix && (
                      <>
                        {" in "}
                        <code>{prefix}</code>
                      </>
                    )}
                  </span>
                  <StatusChip group={node} now={now} />
                </h2>
                <p className={styles.message}>{groupTitle(node.title)}</p>
              </div>
              <CopyLink
                path={`${account}/errors/${encodeURIComponent(id)}`}
                fixed={{ range: fixedRange(days) }}
              />
              <StatusButtons id={id} status={node.status} />
            </div>
            <dl className={styles.facts}>
              <Fact
                name="Happened"
                value={count(node.occurrenceCount)}
                note={`${node.occurrenceCount === 1 ? "time" : "times"} in all, ${ORIGIN_NAMES[node.origin]}`}
              />
              <Fact
                name="Clusters"
                value={count(node.clusterCount)}
                note={usersText(affected(occurrences.rows, node.clusterCount))}
              />
              <Fact name="First seen" value={dayAndClock(node.firstSeenAt, "UTC", now)} />
              <Fact
                name="Last seen"
                value={dayAndClock(node.lastSeenAt, "UTC", now)}
                note={ago(node.lastSeenAt, now)}
              />
              {node.statusChangedAt && (
                <Fact
                  name="Status set"
                  value={dayAndClock(node.statusChangedAt, "UTC", now)}
                  note={node.statusChangedBy ? `by ${node.statusChangedBy.name}` : "by a former member"}
                />
              )}
              {node.regressedAt && (
                <Fact name="Came back" value={dayAndClock(node.regressedAt, "UTC", now)} />
              )}
            </dl>
            <Section
              title={node.trend ? trendText(node.trend, isWeekly) : "The trend did not load"}
              sub={isWeekly ? "by week" : "by day, UTC"}
              actions={
                <TakeAway
                  name="error-trend"
                  document={ErrorGroupDetailDocument}
                  variables={variables}
                  sheet={sheet}
                  isTable={isTable}
                  onTable={setTable}
                />
              }
            >
              {isTable ? (
                <SheetTable label="Errors over time" sheet={sheet} format={count} />
              ) : (
                <Trend points={node.trend} isWeekly={isWeekly} isBad isLarge />
              )}
            </Section>
            <Beginning id={id} />
            <OccurrencesPanel occurrences={occurrences} />
          </>
        );
      }}
    </Loaded>
  );
}

const SHOWN_USERS = 3;

/** Returns the users in words: `of ada, okan`. Null while none is known. */
function usersText({ names, isComplete }: Affected): string | null {
  if (names.length === 0) return null;
  const rest = names.length - SHOWN_USERS;
  const more = rest > 0 ? ` and ${count(rest)} more` : "";
  return `of ${names.slice(0, SHOWN_USERS).join(", ")}${more}${isComplete ? "" : ", others not loaded"}`;
}
