import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";
import { useAccount } from "@/data/account.ts";
import type { Answered } from "@/data/ask.ts";
import {
  ClusterLogsDocument,
  type ClusterLogsQuery,
  type ClusterLogsQueryVariables,
} from "@/data/gql/graphql.ts";
import { type Asked, pagesKey, useAskPages } from "@/data/queries.ts";
import { count, counted } from "@/format/number.ts";
import { useLiveState } from "@/live/use_live.ts";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import type { ShownCluster } from "@/routes/cluster/tabs.ts";
import { Button } from "@/ui/button.tsx";
import { Empty, Loaded, Skeleton } from "@/ui/panel.tsx";
import {
  coversDays,
  FOLLOWING_TEXT,
  following,
  type Line,
  type LogFilter,
  linesOf,
  nextCursor,
  pageVariables,
} from "./lines.ts";
import { LogList } from "./log_list.tsx";
import styles from "./logs.module.css";

interface LogViewProps {
  cluster: ShownCluster;
  filter: LogFilter;
  /** The number of lines that pass the filter, its text aside. */
  passing: number;
  /** The time of that number, in milliseconds. It changes with each report of the cluster. */
  countedAt: number;
  isWanted: boolean;
  onWanted(isWanted: boolean): void;
  onWorker(id: string, name: string): void;
}

/** The lines that pass a filter, page by page, and the newest ones as they arrive. */
export function LogView(props: LogViewProps) {
  const { cluster, filter, passing, isWanted, onWanted, onWorker } = props;
  const { isOldestFirst, match } = filter;
  const [isAtNewest, setAtNewest] = useState(true);
  const [scrollResets, setScrollResets] = useState(0);
  const variables = pageVariables(cluster.id, filter);
  const query = useAskPages<ClusterLogsQuery, ClusterLogsQueryVariables>(
    ClusterLogsDocument,
    variables,
    (data) => nextCursor(data.cluster?.logs, isOldestFirst),
    isOldestFirst ? "after" : "before",
  );
  const live = useLiveState().kind;
  const state = following({
    isLive: cluster.isLive,
    filter,
    isWanted,
    isAtNewest,
    isConnected: live !== "reconnecting",
  });
  const isHeld = !isWanted || !isAtNewest || isOldestFirst || filter.period !== null;
  const newer = useNewest(query, variables, { isHeld, passing, countedAt: props.countedAt });

  const pages = query.data?.pages ?? [];
  const lines = useMemo(
    () =>
      linesOf(
        (query.data?.pages ?? []).map(({ data }) => data.cluster?.logs),
        isOldestFirst,
      ),
    [query.data, isOldestFirst],
  );
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  // A search step without a match may be followed by many more, which the reader starts.
  const isFruitless = match !== null && pages.at(-1)?.data.cluster?.logs.edges.length === 0;
  const loadMore = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const onNearEnd = useCallback(() => {
    if (!isFruitless) loadMore();
  }, [isFruitless, loadMore]);

  const withErrors = pages.find(({ errors }) => errors.length > 0);
  const first = { ...query, data: withErrors ?? pages[0] } as unknown as Asked<ClusterLogsQuery>;
  return (
    <>
      <div className={styles.status}>
        <span>
          {counted(lines.length, "line")} {lines.length === 1 ? "is" : "are"} loaded.
        </span>
        {cluster.isLive && (
          <>
            <span role="status">{FOLLOWING_TEXT[state]}</span>
            {newer !== null && newer > 0 && state !== "on" && <span>Up to {count(newer)} are newer.</span>}
            {state === "reading" && (
              <Button
                size="small"
                onClick={() => {
                  setScrollResets(scrollResets + 1);
                  setAtNewest(true);
                }}
              >
                To the newest
              </Button>
            )}
            {!isOldestFirst && !filter.period && (
              <Button size="small" onClick={() => onWanted(!isWanted)}>
                {isWanted ? "Pause" : "Follow"}
              </Button>
            )}
          </>
        )}
        <span className="grow" />
        <TakeAway
          name="loaded-log-lines"
          document={ClusterLogsDocument}
          variables={variables}
          sheet={sheet(lines)}
        />
      </div>
      <Loaded name="The log lines" query={first} skeleton={<Skeleton rows={8} columns={4} />}>
        {() =>
          lines.length === 0 && !hasNextPage ? (
            <Empty title={`No line has “${match ?? ""}”`}>
              {count(passing)} lines were searched. Lines that cannot be decrypted have no text.
            </Empty>
          ) : (
            <LogList
              key={scrollResets}
              lines={lines}
              totalCount={match === null ? passing : null}
              withDay={coversDays(cluster.startedAt, cluster.lastAt)}
              onNearEnd={onNearEnd}
              onTop={setAtNewest}
              onWorker={onWorker}
              foot={
                <Foot
                  isSearch={match !== null}
                  isOldestFirst={isOldestFirst}
                  hasMore={hasNextPage}
                  isLoading={isFetchingNextPage}
                  onMore={loadMore}
                />
              }
            />
          )
        }
      </Loaded>
    </>
  );
}

interface FootProps {
  isSearch: boolean;
  isOldestFirst: boolean;
  hasMore: boolean;
  isLoading: boolean;
  onMore(): void;
}

function Foot({ isSearch, isOldestFirst, hasMore, isLoading, onMore }: FootProps) {
  const side = isOldestFirst ? "newer" : "older";
  if (!hasMore) return <span>{`There are no ${side} lines.`}</span>;
  return (
    <>
      <span>{isSearch ? "Each step searches at most 1,000 lines." : `There are ${side} lines.`}</span>
      {/* A disabled button would lose the focus, which starts to load lines as it comes into sight. */}
      <Button size="small" aria-disabled={isLoading} onClick={isLoading ? undefined : onMore}>
        {isLoading ? "Loading…" : isSearch ? `Search ${side} lines` : `Load ${side} lines`}
      </Button>
    </>
  );
}

interface NewestOptions {
  isHeld: boolean;
  passing: number;
  countedAt: number;
}

type Pages = { pages: Answered<ClusterLogsQuery>[]; pageParams: unknown[] };

/**
 * Asks for the newest page after each report, unless the list is held. The pages behind it are dropped, so that a
 * report costs one request: they load again by scrolling. Returns the number of lines that were counted since.
 */
function useNewest(
  query: { refetch(): unknown; dataUpdatedAt: number },
  variables: object,
  { isHeld, passing, countedAt }: NewestOptions,
): number | null {
  const account = useAccount();
  const client = useQueryClient();
  const [passingAtRefetch, setPassingAtRefetch] = useState<number | null>(null);
  const { refetch, dataUpdatedAt } = query;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a report or the release starts it, its answer does not
  useEffect(() => {
    if (isHeld || countedAt === 0) return;
    setPassingAtRefetch(passing);
    if (dataUpdatedAt === 0 || dataUpdatedAt >= countedAt) return;
    client.setQueryData<Pages>(
      pagesKey(account, ClusterLogsDocument, variables),
      (old) => old && { pages: old.pages.slice(0, 1), pageParams: old.pageParams.slice(0, 1) },
    );
    void refetch();
  }, [isHeld, countedAt]);
  return passingAtRefetch === null ? null : Math.max(0, passing - passingAtRefetch);
}

function sheet(lines: readonly Line[]) {
  return {
    head: ["at", "level", "source", "worker", "logger", "message", "repeated"],
    rows: lines.map(
      ({ at, level, source, workerProcess, worker, logger, message, repeated }) =>
        [at, level, source, workerProcess?.name ?? worker, logger, message, repeated] as const,
    ),
  };
}
