import type { RunsBesideQuery, RunsBesideQueryVariables } from "@/data/gql/graphql.ts";
import type { HeaderCluster } from "./shown.ts";

export type Side = "earlier" | "later";

type Found = RunsBesideQuery["viewer"]["account"]["clusters"];
type Run = Pick<HeaderCluster, "id" | "name" | "user" | "startedAt">;

const LONGEST_SEARCH = 200;

/** Returns the question for the runs beside the cluster. Null if it has no name or no user to find them by. */
export function runsVariables(cluster: Run, side: Side): RunsBesideQueryVariables | null {
  const { name, user, startedAt } = cluster;
  if (!name || !user) return null;
  const startedIn = side === "earlier" ? { to: startedAt } : { from: startedAt };
  return {
    filter: { users: [user.id], search: name.slice(0, LONGEST_SEARCH), startedIn },
    direction: side === "earlier" ? "DESC" : "ASC",
  };
}

/** Returns the nearest run of the same name, or the sentence that says why there is none. */
export function runBeside(cluster: Run, side: Side, { nodes, pageInfo }: Found): number | string {
  // The search also finds names that contain this one, and a period begins with the cluster itself.
  const run = nodes.find(({ id, name }) => id !== cluster.id && name === cluster.name);
  if (run) return run.number;
  return pageInfo.hasNextPage
    ? `No ${side} run among the next ${nodes.length}`
    : `No ${side} run of this name`;
}
