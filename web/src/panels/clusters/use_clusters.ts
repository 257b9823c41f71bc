import { type InfiniteData, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import { useAccount } from "@/data/account.ts";
import { type Answered, documentId } from "@/data/ask.ts";
import {
  type ClusterFilter,
  type ClusterRowFragment,
  ClusterStatesDocument,
  ClusterSumsDocument,
  ClustersDocument,
  type ClustersQuery,
  type ClustersQueryVariables,
  ClusterUsersDocument,
  NavigationCountsDocument,
} from "@/data/gql/graphql.ts";
import { askKey, useAsk, useAskPages } from "@/data/queries.ts";
import type { ClustersSearch } from "@/routes/search_types.ts";
import { clusterFilter, type KnownUser } from "./filter.ts";
import { ORDERS, parseOrder } from "./order.ts";
import { patchPages, rowsOf } from "./rows.ts";

const PAGE = 100;
/** The documents that count clusters by state, here and in the navigation. */
const COUNT_DOCUMENTS = [documentId(ClusterStatesDocument), documentId(NavigationCountsDocument)];
const DAY_MS = 86_400_000;
/** The days whose users are offered as a filter. */
export const USER_DAYS = 90;

/** The users of the clusters of the last days. The list of members is for admins only. */
export function useUsers(isWanted: boolean): KnownUser[] | null {
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  const date = (ms: number) => new Date(ms).toISOString().slice(0, 10);
  const variables = { from: date(today - USER_DAYS * DAY_MS), to: date(today + DAY_MS) };
  const query = useAsk(ClusterUsersDocument, variables, { enabled: isWanted, staleSeconds: 300 });
  const table = query.data?.data.viewer.account.usageTable;
  return useMemo(() => {
    if (!query.data) return query.error ? [] : null;
    const users = (table ?? []).flatMap(({ user }) => (user ? [{ id: user.id, name: user.name }] : []));
    return users.sort((a, b) => a.name.localeCompare(b.name));
  }, [query.data, query.error, table]);
}

/** The server's filter of the address. Null while the user's identifier is being asked for. */
export function useFilter(search: ClustersSearch): { filter: ClusterFilter | null; isUserUnknown: boolean } {
  const users = useUsers(search.user !== undefined);
  return useMemo(() => {
    if (search.user === undefined)
      return { filter: clusterFilter(search, [], Date.now()), isUserUnknown: false };
    if (users === null) return { filter: null, isUserUnknown: false };
    const filter = clusterFilter(search, users, Date.now());
    return { filter, isUserUnknown: filter.users === undefined };
  }, [search, users]);
}

function variablesOf(filter: ClusterFilter, sort: string | undefined, withFinished: boolean) {
  const { by, direction } = parseOrder(sort);
  return {
    filter,
    order: { field: ORDERS[by] ?? "STARTED_AT", direction: direction === "asc" ? "ASC" : "DESC" },
    first: PAGE,
    withFinished,
  } satisfies Omit<ClustersQueryVariables, "after">;
}

/** The clusters that pass the filter, page by page, and their totals. */
export function useClusters(filter: ClusterFilter, sort: string | undefined, withFinished: boolean) {
  const account = useAccount();
  const client = useQueryClient();
  const variables = variablesOf(filter, sort, withFinished);
  const query = useAskPages<ClustersQuery, ClustersQueryVariables>(
    ClustersDocument,
    variables,
    ({ viewer }) => {
      const { hasNextPage, endCursor } = viewer.account.clusters.pageInfo;
      return hasNextPage ? (endCursor ?? null) : null;
    },
  );
  const sums = useAsk(ClusterSumsDocument, { filter }, { keepsPrevious: true });
  const pages = query.data?.pages;
  const rows = useMemo(() => rowsOf(pages ?? []), [pages]);
  const { hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage } = query;
  const onNearEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage && !isFetchNextPageError) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage]);
  const key = [account, documentId(ClustersDocument), variables, "pages"];
  const patch = (cluster: ClusterRowFragment): boolean => {
    const before = client.getQueryData<InfiniteData<Answered<ClustersQuery>, string | null>>(key);
    const after = before && patchPages(before, cluster);
    if (!after || after === before) return false;
    client.setQueryData(key, after);
    return true;
  };
  const refresh = () => {
    // Only the first page is loaded again. The further pages load again by scrolling.
    client.setQueryData<InfiniteData<Answered<ClustersQuery>, string | null>>(
      key,
      (data) => data && { pages: data.pages.slice(0, 1), pageParams: data.pageParams.slice(0, 1) },
    );
    void client.invalidateQueries({ queryKey: key });
    refreshSums();
  };
  const refreshSums = () => {
    void client.invalidateQueries({ queryKey: askKey(account, ClusterSumsDocument, { filter }) });
    void client.invalidateQueries({
      predicate: ({ queryKey }) => COUNT_DOCUMENTS.includes(String(queryKey[1])),
    });
  };
  return { query, rows, sums, onNearEnd, patch, refresh, refreshSums, pageCount: pages?.length ?? 0 };
}

export type Clusters = ReturnType<typeof useClusters>;
