import { Link } from "@tanstack/react-router";
import { useAccount } from "@/data/account.ts";
import type { ErrorGroupsQuery } from "@/data/gql/graphql.ts";
import { count, counted } from "@/format/number.ts";
import { dayAndClock } from "@/format/time.ts";
import type { Sheet } from "@/panels/take_away/csv.ts";
import type { ErrorsSearch } from "@/routes/search_types.ts";
import { Chip } from "@/ui/chip.tsx";
import { VerdictMark } from "@/ui/verdict.tsx";
import styles from "./errors.module.css";
import { isNew } from "./filter.ts";
import { Trend } from "./trend.tsx";

export type Group = NonNullable<ErrorGroupsQuery["viewer"]["account"]["errorGroups"]>["nodes"][number];

interface GroupListProps {
  groups: readonly Group[];
  chosen: string | null;
  search: ErrorsSearch;
  isWeekly: boolean;
  now: number;
}

/** Returns the loaded groups as a table that leaves the page. */
export function groupSheet(groups: readonly Group[]): Sheet {
  return {
    head: ["class", "message", "status", "first seen", "last seen", "errors", "clusters"],
    rows: groups.map((group) => [
      group.type,
      group.title,
      group.status,
      group.firstSeenAt,
      group.lastSeenAt,
      group.occurrenceCount,
      group.clusterCount,
    ]),
  };
}

/** The groups of similar errors, each with its trend. */
export function GroupList({ groups, chosen, search, isWeekly, now }: GroupListProps) {
  const account = useAccount();
  return (
    <ul className={styles.list} aria-label="Groups of similar errors">
      {groups.map((group) => (
        <li key={group.id}>
          <Link
            to="/$account/errors/$group"
            params={{ account, group: group.id }}
            search={search}
            resetScroll={false}
            className={styles.group}
            aria-current={group.id === chosen ? "true" : undefined}
            data-group={group.id}
          >
            <GroupHead group={group} now={now} lastAt={group.lastSeenAt} />
            <span className={styles.groupFoot}>
              <Trend points={group.trend} isWeekly={isWeekly} isBad={isNew(group, now)} />
              <span className="grow" />
              <span className="muted small">
                <strong className="num">{count(group.occurrenceCount)}</strong> in all, on{" "}
                {counted(group.clusterCount, "cluster")}
              </span>
            </span>
          </Link>
        </li>
      ))}
    </ul>
  );
}

interface GroupHeadProps {
  group: Rated & Pick<Group, "type" | "title">;
  now: number;
  /** The time that stands at the right. Null shows none. */
  lastAt: string | null;
}

/** The class, the status, the last time and the message of a group. */
export function GroupHead({ group, now, lastAt }: GroupHeadProps) {
  return (
    <>
      <Mark group={group} now={now} />
      <span className={styles.groupHead}>
        <strong className="truncated">{group.type ?? "Class unknown"}</strong>
        <StatusChip group={group} now={now} />
        <span className="grow" />
        {lastAt !== null && <span className="faint small num">{dayAndClock(lastAt, "UTC", now)}</span>}
      </span>
      <span className={`${styles.groupTitle} truncated`}>{groupTitle(group.title)}</span>
    </>
  );
}

/** Returns the message of a group. Null is one that cannot be decrypted, and not an empty one. */
export function groupTitle(title: string | null): string {
  if (title === null) return "The message cannot be decrypted";
  return title === "" ? "Without a message" : title;
}

type Rated = Pick<Group, "status" | "firstSeenAt">;

function Mark({ group, now }: { group: Rated; now: number }) {
  if (isNew(group, now)) return <VerdictMark verdict="BAD" />;
  if (group.status === "REGRESSED") return <VerdictMark verdict="NOTICE" />;
  return <VerdictMark verdict={group.status === "RESOLVED" ? "GOOD" : "FACT"} />;
}

/** The status of a group as a word. New is an open group that began within a day. */
export function StatusChip({ group, now }: { group: Rated; now: number }) {
  if (isNew(group, now)) return <Chip tone="bad">New</Chip>;
  switch (group.status) {
    case "OPEN":
      return <Chip>Open</Chip>;
    case "REGRESSED":
      return <Chip tone="notice">Regressed</Chip>;
    case "RESOLVED":
      return <Chip tone="good">Resolved</Chip>;
    case "IGNORED":
      return <Chip>Ignored</Chip>;
  }
}
