import type { WorkerEndKind, WorkerFieldsFragment } from "@/data/gql/graphql.ts";
import { isDeath } from "@/panels/cluster/timeline/ended_workers.ts";

export type Worker = WorkerFieldsFragment;

/** The end of a worker in words. */
export const END_NAMES: Record<WorkerEndKind, string> = {
  RETIRED: "retired",
  CLOSED: "closed",
  MEMORY: "killed: out of memory",
  LOST: "disappeared",
  UNKNOWN: "left, nobody knows how",
};

export type WorkerStanding = "alive" | "ended" | "died";

/** Returns whether the worker is alive, has ended or has died, as of the last report. */
export function standing({ end, endedAt }: Worker): WorkerStanding {
  if (end && isDeath(end.kind)) return "died";
  return end || endedAt ? "ended" : "alive";
}

/** Returns the workers that had joined by a time, each as it was then. */
export function workersAt(workers: readonly Worker[], at: string): Worker[] {
  const isLater = (time: string | null) => time !== null && Date.parse(time) > Date.parse(at);
  return workers
    .filter(({ startedAt }) => !isLater(startedAt))
    .map((worker) => (isLater(worker.endedAt) ? { ...worker, end: null, endedAt: null } : worker));
}

/** Returns the workers with those that died first, and otherwise in the order in which they joined. */
export function diedFirst(workers: readonly Worker[]): Worker[] {
  const rank = { died: 0, alive: 1, ended: 2 } as const;
  return [...workers].sort((a, b) => rank[standing(a)] - rank[standing(b)]);
}
