import type { Answered } from "@/data/ask.ts";
import type { ClusterMoreSpansQuery, MarkedSpanFragment } from "@/data/gql/graphql.ts";
import type { Marked } from "./marks.ts";

/** The pages of spans that are asked for after the first one. A cluster may have any number of them. */
export const MOST_PAGES = 9;

type AskPage = (after: string) => Promise<Answered<ClusterMoreSpansQuery>>;

/** Loads the spans behind a cursor, in the order in which their tasks arrived. */
export async function loadMoreSpans(
  after: string,
  askPage: AskPage,
): Promise<Answered<readonly MarkedSpanFragment[]>> {
  const spans: MarkedSpanFragment[] = [];
  let cursor: string | null = after;
  for (let page = 0; cursor !== null && page < MOST_PAGES; page++) {
    const { data, errors }: Answered<ClusterMoreSpansQuery> = await askPage(cursor);
    if (!data.cluster) return { data: spans, errors };
    const { pageInfo, nodes } = data.cluster.spans;
    spans.push(...nodes);
    cursor = pageInfo.hasNextPage ? (pageInfo.endCursor ?? null) : null;
  }
  return { data: spans, errors: [] };
}

/** Returns the spans' first page with those of the next ones. */
export function withMoreSpans(
  { spans }: Pick<Marked, "spans">,
  more: readonly MarkedSpanFragment[],
): Pick<Marked["spans"], "totalCount" | "nodes"> {
  // Between two answers a span may have come into the first page.
  const first = new Set(spans.nodes.map(({ id }) => id));
  return {
    totalCount: spans.totalCount,
    nodes: [...spans.nodes, ...more.filter(({ id }) => !first.has(id))],
  };
}
