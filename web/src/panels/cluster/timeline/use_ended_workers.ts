import { useEffect, useMemo } from "react";
import {
  ClusterEndedWorkersDocument,
  type ClusterEndedWorkersQuery,
  type ClusterEndedWorkersQueryVariables,
} from "@/data/gql/graphql.ts";
import { type Asked, useAskPages } from "@/data/queries.ts";
import { type EndedWorkers, endedWorkers, MOST_PAGES, NONE_ENDED } from "./ended_workers.ts";

interface UseEndedWorkers {
  /** The first page, for the state of the whole. */
  query: Asked<ClusterEndedWorkersQuery>;
  ended: EndedWorkers;
}

/** Asks for the workers that have left, page after page: those that died may be among the last. */
export function useEndedWorkers(id: string): UseEndedWorkers {
  const query = useAskPages<ClusterEndedWorkersQuery, ClusterEndedWorkersQueryVariables>(
    ClusterEndedWorkersDocument,
    { id },
    ({ cluster }) => {
      const info = cluster?.workers.pageInfo;
      return info?.hasNextPage ? info.endCursor : null;
    },
  );
  // The pages of another cluster, which are kept until the first one of this has arrived, are no answer.
  const pages = query.isPlaceholderData ? undefined : query.data?.pages;
  const { hasNextPage, isFetching, isError, fetchNextPage } = query;
  const wantsMore =
    pages !== undefined && pages.length < MOST_PAGES && hasNextPage && !isFetching && !isError;
  useEffect(() => {
    if (wantsMore) void fetchNextPage();
  }, [wantsMore, fetchNextPage]);
  const ended = useMemo(() => (pages ? endedWorkers(pages.map(({ data }) => data)) : NONE_ENDED), [pages]);
  return { query: { ...query, data: pages?.[0] } as unknown as Asked<ClusterEndedWorkersQuery>, ended };
}
