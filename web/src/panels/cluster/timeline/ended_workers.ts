import type { Answered } from "@/data/ask.ts";
import type { ClusterEndedWorkersQuery, WorkerEndKind } from "@/data/gql/graphql.ts";

export type EndedWorker = NonNullable<ClusterEndedWorkersQuery["cluster"]>["workers"]["nodes"][number];

/** The pages of ended workers that are asked for at once. The cluster may have any number of them. */
export const MOST_PAGES = 10;

/** The workers that have left, as far as they are loaded: those that joined last. */
export interface EndedWorkers {
  workers: readonly EndedWorker[];
  totalCount: number;
}

export const NONE_ENDED: EndedWorkers = { workers: [], totalCount: 0 };

type AskPage = (before: string | null) => Promise<Answered<ClusterEndedWorkersQuery>>;

/**
 * Loads the workers that have left, from the one that joined last backwards. A worker that has left does not change
 * any more. So with those that are known, it asks only until it has found as many others as there must be.
 */
export async function loadEndedWorkers(
  known: EndedWorkers = NONE_ENDED,
  askPage: AskPage,
): Promise<Answered<EndedWorkers>> {
  let before: string | null = null;
  let kept = known;
  const added = new Map<string, EndedWorker>();
  for (let page = 0; ; page++) {
    const { data, errors } = await askPage(before);
    const workers = data.cluster?.workers;
    if (!workers) return { data: known, errors };
    const { totalCount, pageInfo, nodes } = workers;
    // Some were deleted: nobody knows which.
    if (totalCount < kept.totalCount) kept = NONE_ENDED;
    const ids = new Set(kept.workers.map(({ id }) => id));
    for (const worker of nodes) if (!ids.has(worker.id)) added.set(worker.id, worker);
    const isComplete = kept.totalCount + added.size >= totalCount;
    if (isComplete || !pageInfo.hasPreviousPage || page + 1 === MOST_PAGES) {
      const isSame = added.size === 0 && totalCount === kept.totalCount;
      return { data: isSame ? kept : { workers: [...kept.workers, ...added.values()], totalCount }, errors };
    }
    before = pageInfo.startCursor ?? null;
  }
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
