import { useQuery } from "@tanstack/react-query";
import { useAccount } from "@/data/account.ts";
import { type Answered, ask } from "@/data/ask.ts";
import { ClusterMoreSpansDocument, type MarkedSpanFragment } from "@/data/gql/graphql.ts";
import { type Asked, askKey } from "@/data/queries.ts";
import type { Marked } from "./marks.ts";
import { loadMoreSpans } from "./more_spans.ts";

/** Asks for the spans after the first page, which few clusters have. */
export function useMoreSpans(id: string, marked: Marked | null): Asked<readonly MarkedSpanFragment[]> {
  const account = useAccount();
  const info = marked?.spans.pageInfo;
  const first = (info?.hasNextPage && info.endCursor) || null;
  return useQuery<Answered<readonly MarkedSpanFragment[]>>({
    queryKey: askKey(account, ClusterMoreSpansDocument, { id, after: first }),
    queryFn: ({ signal }) =>
      loadMoreSpans(first ?? "", (after) =>
        ask(ClusterMoreSpansDocument, { id, after }, { account, signal }),
      ),
    enabled: first !== null,
  });
}
