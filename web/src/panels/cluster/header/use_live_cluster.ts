import { useQueryClient } from "@tanstack/react-query";
import { useAccount } from "@/data/account.ts";
import { documentId } from "@/data/ask.ts";
import {
  ClusterCausesDocument,
  ClusterCostDocument,
  ClusterEndedWorkersDocument,
  ClusterErrorGroupsDocument,
  ClusterFunctionActivityDocument,
  ClusterFunctionsDocument,
  ClusterHeaderDocument,
  ClusterLanesDocument,
  ClusterLogCountsDocument,
  ClusterMarksDocument,
  ClusterMoreSpansDocument,
  ClusterTimeDocument,
  ClusterWithoutActivityDocument,
  ClusterWorkersDocument,
  LiveClusterDocument,
  WorkerLastLogsDocument,
  WorkerPostMortemDocument,
} from "@/data/gql/graphql.ts";
import { useLive } from "@/live/use_live.ts";
import { isLive } from "@/ui/state.tsx";
import type { HeaderCluster } from "./shown.ts";

/** The documents of the page that each report may change. */
const CHANGING = new Set(
  [
    ClusterHeaderDocument,
    ClusterLanesDocument,
    ClusterFunctionActivityDocument,
    ClusterWithoutActivityDocument,
    ClusterMarksDocument,
    ClusterMoreSpansDocument,
    ClusterEndedWorkersDocument,
    WorkerPostMortemDocument,
    WorkerLastLogsDocument,
    ClusterCausesDocument,
    ClusterTimeDocument,
    ClusterFunctionsDocument,
    ClusterWorkersDocument,
    ClusterCostDocument,
    ClusterErrorGroupsDocument,
    ClusterLogCountsDocument,
  ].map((document) => documentId(document as never)),
);

/** Asks again what is shown of a cluster whenever it has reported, at most every ten seconds. */
export function useLiveCluster(cluster: HeaderCluster): void {
  const account = useAccount();
  const client = useQueryClient();
  useLive(
    LiveClusterDocument,
    { ids: [cluster.id] },
    {
      enabled: isLive(cluster.state),
      after: cluster.account.liveCursor,
      cursor: ({ snapshots }) => snapshots.cursor,
      onPayload: ({ snapshots }) => {
        if (snapshots.clusters.length === 0 && !snapshots.gap) return;
        void client.invalidateQueries({
          predicate: ({ queryKey: [of, document] }) => of === account && CHANGING.has(String(document)),
        });
      },
    },
  );
}
