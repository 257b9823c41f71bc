import { useSearch } from "@tanstack/react-router";
import { useContext, useEffect, useState } from "react";
import { ClusterLogCountsDocument, type ClusterLogCountsQuery } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { count } from "@/format/number.ts";
import { period as periodText } from "@/format/time.ts";
import { NOT_PLAYED, PlayedContext, usePart } from "@/routes/cluster/part.ts";
import type { ClusterTabProps } from "@/routes/cluster/tabs.ts";
import { useSetClusterSearch } from "@/routes/cluster/use_cluster_search.ts";
import { FilterChip } from "@/ui/chip.tsx";
import { type Command, useCommands } from "@/ui/commands.ts";
import { Empty, Loaded, Section, Skeleton } from "@/ui/panel.tsx";
import { Segmented } from "@/ui/segmented.tsx";
import { Absent, Missing } from "../receipts/absent.tsx";
import { absence, missing, receiptOf } from "../receipts/receipts.ts";
import {
  countVariables,
  isFiltered,
  LEVELS,
  type Level,
  type LogFilter,
  logFilter,
  SOURCES,
  type Source,
} from "./lines.ts";
import { LogView } from "./log_view.tsx";
import styles from "./logs.module.css";

const ROUTE = "/$account/clusters/$number";

const WORDS = { one: "log line", many: "log lines", setting: "galvo.logs.transmit" };

const LEVEL_LABELS: Record<Level, string> = {
  all: "All",
  info: "Info and worse",
  warning: "Warnings and worse",
  error: "Errors",
};
const SOURCE_LABELS: Record<Source, string> = {
  all: "All",
  scheduler: "Scheduler",
  worker: "Workers",
  nanny: "Nannies",
};
const ORDERS = [
  { value: "newest", label: "Newest first" },
  { value: "oldest", label: "Oldest first" },
] as const;

/** The log lines of the scheduler, the workers and the nannies. */
export default function LogsTab({ cluster }: ClusterTabProps) {
  const search = useSearch({ from: ROUTE });
  const setSearch = useSetClusterSearch();
  const part = usePart(cluster.startedAt);
  const played = useContext(PlayedContext);
  const filter = logFilter({ ...search, ...part });
  const [isWanted, setWanted] = useState(true);
  const [worker, setWorker] = useState({ id: "", name: "" });
  const counts = useAsk(ClusterLogCountsDocument, countVariables(cluster.id, filter), {
    keepsPrevious: true,
  });
  const follow: Command = {
    id: "follow-log",
    label: isWanted ? "Pause the log" : "Follow the log",
    keys: "l",
    group: "Page",
    run: () => setWanted(!isWanted),
  };
  useCommands(cluster.isLive ? [follow] : []);
  return (
    <Loaded name="The logs" query={counts} skeleton={<Skeleton rows={8} columns={4} />}>
      {({ cluster: known }) => {
        if (!known) return null;
        const receipt = receiptOf(known, "LOGS");
        const sentences = missing(receipt, known.dropped.logs, WORDS);
        if (known.all.totalCount === 0) {
          const isDiscarded = known.dropped.logs > 0;
          return (
            <>
              <Absent absence={absence(receipt, WORDS)} />
              {isDiscarded && <Missing sentences={missing(undefined, known.dropped.logs, WORDS)} />}
            </>
          );
        }
        return (
          <Section title={title(known, filter)}>
            <Missing sentences={sentences} />
            <div className={styles.filters}>
              <Segmented
                label="Level"
                value={filter.level}
                options={LEVELS.map((value) => ({ value, label: LEVEL_LABELS[value] }))}
                onChange={(level) => setSearch({ level: level === "all" ? undefined : level })}
              />
              <Segmented
                label="Process"
                value={filter.source}
                options={SOURCES.map((value) => ({ value, label: SOURCE_LABELS[value] }))}
                onChange={(source) => setSearch({ source: source === "all" ? undefined : source })}
              />
              <Find text={filter.match ?? ""} onFind={(q) => setSearch({ q: q === "" ? undefined : q })} />
              <span className="grow" />
              <Segmented
                label="Order"
                value={filter.isOldestFirst ? "oldest" : "newest"}
                options={ORDERS}
                onChange={(order) => setSearch({ order: order === "oldest" ? "oldest" : undefined })}
              />
            </div>
            {(filter.worker || filter.period) && (
              <div className={styles.filters}>
                {filter.worker && (
                  <FilterChip
                    name="Worker"
                    value={filter.worker === worker.id ? worker.name : filter.worker}
                    onRemove={() => setSearch({ worker: undefined })}
                  />
                )}
                {filter.period && (
                  <FilterChip
                    name="Part"
                    value={periodText(filter.period.from, filter.period.to)}
                    onRemove={() => {
                      played.set(NOT_PLAYED);
                      setSearch({ from: undefined, to: undefined });
                    }}
                  />
                )}
              </div>
            )}
            {known.passing.totalCount === 0 ? (
              <Empty title="No line passes the filter">
                The cluster has {count(known.all.totalCount)} log lines without it.
              </Empty>
            ) : (
              <LogView
                key={JSON.stringify(filter)}
                cluster={cluster}
                filter={filter}
                passing={known.passing.totalCount}
                countedAt={counts.isPlaceholderData ? 0 : counts.dataUpdatedAt}
                isWanted={isWanted}
                onWanted={setWanted}
                onWorker={(id, name) => {
                  setWorker({ id, name });
                  setSearch({ worker: id });
                }}
              />
            )}
          </Section>
        );
      }}
    </Loaded>
  );
}

function title({ all, passing }: NonNullable<ClusterLogCountsQuery["cluster"]>, filter: LogFilter): string {
  const lines = isFiltered(filter)
    ? `${count(passing.totalCount)} of ${count(all.totalCount)} log lines`
    : `${count(all.totalCount)} log ${all.totalCount === 1 ? "line" : "lines"}`;
  return filter.match === null ? lines : `Lines with “${filter.match}” among ${lines}`;
}

const TYPING_MS = 400;

/** The field for the text that lines must contain. It is sent after a pause in typing. */
function Find({ text, onFind }: { text: string; onFind(text: string): void }) {
  const [typed, setTyped] = useState(text);
  const [known, setKnown] = useState(text);
  if (known !== text) {
    setKnown(text);
    // A space at the end may be followed by another word.
    if (typed.trim() !== text) setTyped(text);
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: only typing starts the pause anew
  useEffect(() => {
    if (typed.trim() === text) return;
    const timer = setTimeout(() => onFind(typed.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <input
      type="search"
      className={styles.find}
      aria-label="Find in the lines"
      placeholder="Find in the lines"
      value={typed}
      autoComplete="off"
      onChange={(event) => setTyped(event.target.value)}
    />
  );
}
