import type { ClusterTabCountsQuery } from "@/data/gql/graphql.ts";
import { shortCount } from "@/format/number.ts";
import type { TabName } from "@/routes/cluster/tabs.ts";
import type { HeaderCluster } from "./shown.ts";

/** The `first` of the document, and of the tab's. */
const MOST_FUNCTIONS = 200;

/** Returns the numbers of things in the tabs, as far as they are known. */
export function tabCounts(
  { totals }: Pick<HeaderCluster, "totals">,
  counted: ClusterTabCountsQuery["cluster"] | undefined,
): Partial<Record<TabName, string>> {
  // A field that failed is null.
  const functions = counted?.functions?.length;
  const lines = counted?.logs?.totalCount;
  return {
    workers: shortCount(totals.workers),
    errors: shortCount(totals.errors),
    ...(functions === undefined
      ? {}
      : { functions: functions < MOST_FUNCTIONS ? String(functions) : `${MOST_FUNCTIONS}+` }),
    ...(lines === undefined ? {} : { logs: shortCount(lines) }),
  };
}
