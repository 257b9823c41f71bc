import type { ClusterEndedWorkersQuery, WorkerEndKind } from "@/data/gql/graphql.ts";

export type EndedWorker = NonNullable<ClusterEndedWorkersQuery["cluster"]>["workers"]["nodes"][number];

/** The pages of ended workers that are asked for. The cluster may have any number of them. */
export const MOST_PAGES = 10;

/** The workers that have left, in the order in which they joined, as far as they are loaded. */
export interface EndedWorkers {
  workers: readonly EndedWorker[];
  totalCount: number;
}

export const NONE_ENDED: EndedWorkers = { workers: [], totalCount: 0 };

/** Returns the workers of the pages. */
export function endedWorkers(pages: readonly ClusterEndedWorkersQuery[]): EndedWorkers {
  return {
    workers: pages.flatMap(({ cluster }) => cluster?.workers.nodes ?? []),
    totalCount: pages[0]?.cluster?.workers.totalCount ?? 0,
  };
}

/** The ends of workers that nobody asked for. */
export const DEATHS: Partial<Record<WorkerEndKind, string>> = {
  MEMORY: "was killed: out of memory",
  LOST: "disappeared",
};

/** Returns true if the worker did not end in an orderly way. */
export function isDeath(kind: WorkerEndKind): boolean {
  return DEATHS[kind] !== undefined;
}

/** Returns the number of loaded workers that died, and whether others may have died as well. */
export function deathsOf({ workers, totalCount }: EndedWorkers): { died: number; isLeast: boolean } {
  const died = workers.filter(({ end }) => end && isDeath(end.kind)).length;
  return { died, isLeast: workers.length < totalCount };
}
