import type { WorkerEndKind } from "@/data/gql/graphql.ts";
import { END_NAMES } from "@/panels/cluster/workers/ends.ts";

interface Placed {
  worker: string | null;
  workerProcess: { end: { kind: WorkerEndKind } | null } | null;
}

/** Returns the worker of an error, with the way in which it ended if it has. */
export function place({ worker, workerProcess }: Placed): string {
  if (worker === null) return "worker unknown";
  const end = workerProcess?.end;
  return end ? `${END_NAMES[end.kind]}, ${worker}` : worker;
}
