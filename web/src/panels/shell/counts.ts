import { NavigationCountsDocument, type NavigationCountsQuery } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { shortCount } from "@/format/number.ts";
import { isNew, NEW_FOR_MS } from "@/panels/errors/filter.ts";
import type { NavigationPage } from "./pages.ts";

/** A number beside a page of the navigation. */
export interface Count {
  text: string;
  /** Red and amber ask somebody to act. */
  tone: "plain" | "notice" | "bad";
}

export type Counts = { [Page in NavigationPage["to"]]?: Count[] };

const HOUR_MS = 3_600_000;
const SECONDS = 30;

/** The numbers of the navigation. Empty until they are known, and without those that are 0. */
export function useCounts(): Counts {
  const now = Date.now();
  // Rounded down, so that the variables change once in an hour.
  const since = Math.floor((now - NEW_FOR_MS) / HOUR_MS) * HOUR_MS;
  const query = useAsk(
    NavigationCountsDocument,
    { errorsSince: new Date(since).toISOString() },
    { keepsPrevious: true, refetchSeconds: SECONDS },
  );
  return query.data ? countsOf(query.data.data.viewer.account, now) : {};
}

/** Returns the numbers that are not 0. */
export function countsOf(account: NavigationCountsQuery["viewer"]["account"], now: number): Counts {
  const { live, idle, open } = account;
  const counts: Counts = {};
  if (live.totalCount > 0) {
    counts["/$account/clusters"] = [{ text: `${shortCount(live.totalCount)} live`, tone: "plain" }];
    if (idle.totalCount > 0)
      counts["/$account/clusters"].push({ text: `${shortCount(idle.totalCount)} idle`, tone: "notice" });
  }
  const fresh = open?.nodes.filter((group) => isNew(group, now)).length ?? 0;
  if (open && fresh > 0) {
    const more = open.totalCount > open.nodes.length ? "+" : "";
    counts["/$account/errors"] = [{ text: `${fresh}${more} new`, tone: "bad" }];
  }
  return counts;
}
