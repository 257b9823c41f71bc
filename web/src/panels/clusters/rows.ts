import type { InfiniteData } from "@tanstack/react-query";
import type { Answered } from "@/data/ask.ts";
import type { ClusterRowFragment, ClustersQuery } from "@/data/gql/graphql.ts";

export type Row = ClustersQuery["viewer"]["account"]["clusters"]["nodes"][number];
/** The part of clusters that the dialogs which change them show. */
export type ChangedRow = Pick<
  Row,
  "id" | "number" | "schedulerId" | "name" | "state" | "idleSeconds" | "user"
>;
export type TaggedRow = ChangedRow & Pick<Row, "tags">;
export type StoppedRow = ChangedRow & { now: Pick<NonNullable<Row["now"]>, "workers"> | null };
export type Pages = InfiniteData<Answered<ClustersQuery>, string | null>;

/** Returns the rows of the loaded pages. A cluster that moved to a later page meanwhile is shown once. */
export function rowsOf(pages: readonly Answered<ClustersQuery>[]): Row[] {
  const rows = new Map<string, Row>();
  for (const { data } of pages) {
    for (const row of data.viewer.account.clusters.nodes) {
      if (!rows.has(row.id)) rows.set(row.id, row);
    }
  }
  return [...rows.values()];
}

/** Returns the pages with the new state of a cluster. The same pages if the cluster is not among their rows. */
export function patchPages(pages: Pages, cluster: ClusterRowFragment): Pages {
  const at = pages.pages.findIndex(({ data }) =>
    data.viewer.account.clusters.nodes.some(({ id }) => id === cluster.id),
  );
  const page = pages.pages[at];
  if (!page) return pages;
  const { viewer } = page.data;
  const { account } = viewer;
  const nodes = account.clusters.nodes.map((row) => (row.id === cluster.id ? { ...row, ...cluster } : row));
  const clusters = { ...account.clusters, nodes };
  const changed = {
    ...page,
    data: { ...page.data, viewer: { ...viewer, account: { ...account, clusters } } },
  };
  return { ...pages, pages: pages.pages.with(at, changed) };
}

/** Returns the name of a cluster. A scheduler that was started without one is named by its identifier. */
export function clusterName(row: { name?: string | null; schedulerId: string }): string {
  return row.name ?? row.schedulerId;
}

const LONG = 1_000_000;

/** Returns the number for a list: `#4121`, or the last four digits of a long one, `#…1088`. */
export function shortNumber(number: number): string {
  return number < LONG ? `#${number}` : `#…${String(number).slice(-4)}`;
}

/** Returns true if the cluster reports and nobody has asked it to stop yet. */
export function canStop(row: Pick<Row, "state" | "desiredState">): boolean {
  return !["CLOSED", "LOST", "CLOSING"].includes(row.state) && row.desiredState !== "STOPPED";
}

/**
 * Returns the number of computations that finished and of those that were submitted. The second is null if it
 * does not follow from the share.
 */
export function finishedOf(row: Row): { finished: number; of: number | null } | null {
  const answer = row.answers?.finished;
  if (!answer || typeof answer.value !== "number") return null;
  const { value, share } = answer;
  return { finished: value, of: typeof share === "number" && share > 0 ? Math.round(value / share) : null };
}

/** Returns the workers of now, or the most that there were, once the cluster has ended. */
export function shownWorkers({ now, totals }: Pick<Row, "now" | "totals">): number {
  return now?.workers ?? totals.peakWorkers;
}

/** Returns the sums over rows that the server does not add up. Null is a sum with an unknown part. */
export function sumsOfRows(rows: readonly Row[]) {
  const finished = { finished: 0, of: 0 };
  let isKnown = true;
  for (const row of rows) {
    const answer = finishedOf(row);
    if (!answer) continue;
    finished.finished += answer.finished;
    finished.of += answer.of ?? 0;
    isKnown &&= answer.of !== null;
  }
  const users = new Set(rows.map(({ user }) => user?.id));
  return {
    users: users.has(undefined) ? null : users.size,
    workers: rows.reduce((sum, row) => sum + shownWorkers(row), 0),
    finished: isKnown && finished.of > 0 ? finished : null,
  };
}
