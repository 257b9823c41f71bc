import { ErrorOccurrencesDocument, type ErrorOccurrencesQuery } from "@/data/gql/graphql.ts";
import { type Asked, useAskPages } from "@/data/queries.ts";

type Node = NonNullable<ErrorOccurrencesQuery["node"]>;
export type ErrorPage = Extract<Node, { occurrences: unknown }>["occurrences"];
export type Occurrence = ErrorPage["nodes"][number];

export function pageOf(data: ErrorOccurrencesQuery): ErrorPage | null {
  return data.node && "occurrences" in data.node ? data.node.occurrences : null;
}

/** The errors of a group, the newest first, page by page. */
export function useOccurrences(id: string) {
  const variables = { id };
  const query = useAskPages(ErrorOccurrencesDocument, variables, (data) => {
    const info = pageOf(data)?.pageInfo;
    return info?.hasNextPage ? info.endCursor : null;
  });
  const pages = query.data?.pages ?? [];
  const rows = pages.flatMap(({ data }) => pageOf(data)?.nodes ?? []);
  /** The states of the list are those of its first page. */
  const first = { ...query, data: pages[0] } as unknown as Asked<ErrorOccurrencesQuery>;
  return { variables, query, first, rows };
}

export type Occurrences = ReturnType<typeof useOccurrences>;

/** The users on whose clusters the errors happened. */
export interface Affected {
  names: string[];
  /** False if errors on other clusters are not loaded. */
  isComplete: boolean;
}

/** Returns the users of the clusters of the errors. `clusters` is the number of clusters of the group. */
export function affected(rows: readonly Occurrence[], clusters: number): Affected {
  const known = new Map(rows.map(({ cluster }) => [cluster.id, cluster.user?.name ?? "a user who left"]));
  return { names: [...new Set(known.values())].sort(), isComplete: known.size >= clusters };
}
