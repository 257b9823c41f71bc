import type { ClusterHeaderQuery } from "@/data/gql/graphql.ts";
import type { ShownCluster } from "@/routes/cluster/tabs.ts";
import { isLive } from "@/ui/state.tsx";

export type HeaderCluster = NonNullable<ClusterHeaderQuery["cluster"]>;

/** Returns the facts that the tabs need. */
export function shownCluster(cluster: HeaderCluster): ShownCluster {
  return {
    id: cluster.id,
    number: cluster.number,
    name: cluster.name ?? cluster.schedulerId,
    isLive: isLive(cluster.state),
    startedAt: cluster.startedAt,
    lastAt: cluster.endedAt ?? cluster.now?.at ?? cluster.lastSeenAt,
  };
}
