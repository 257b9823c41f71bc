import { useMemo } from "react";
import type { PlotLane, TimeRange } from "@/charts/lanes/types.ts";
import { ClusterFunctionActivityDocument, ClusterWithoutActivityDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import type { ShownCluster } from "@/routes/cluster/tabs.ts";
import { activityVariables, emptyLane, functionLane, reasonWithout, settledUntil } from "./function_lane.ts";

interface Periods {
  /** The cluster's whole life. */
  extent: TimeRange;
  shown: TimeRange;
}

/** The condition for showing the lane: always, only with data, or never. */
type Choice = "chosen" | "default" | "none";

/**
 * Asks for the threads of each function over time. The lane is null if it is not shown. `isMissing` is true if the
 * cluster has no such data.
 */
export function useFunctionActivity(cluster: ShownCluster, { extent, shown }: Periods, choice: Choice) {
  const { id, isLive } = cluster;
  const isChosen = choice !== "none";
  const isWhole = shown === extent;
  const wholeVariables = activityVariables(id, extent, isLive);
  const variables = isWhole ? wholeVariables : activityVariables(id, shown, false);
  const query = useAsk(ClusterFunctionActivityDocument, variables, {
    keepsPrevious: true,
    enabled: isChosen,
  });
  const answer = query.data?.data.cluster ?? null;
  const activity = answer?.functionActivity ?? null;
  const isEmpty = activity?.startedAt === null;

  // A part without activity is idle only if the rest of the cluster's life has any: else none was reported.
  const whole = useAsk(ClusterFunctionActivityDocument, wholeVariables, {
    enabled: isChosen && isEmpty && !isWhole,
  });
  const wholeActivity = isWhole ? activity : (whole.data?.data.cluster?.functionActivity ?? null);
  const isMissing = isEmpty && wholeActivity?.startedAt === null;
  const without = useAsk(
    ClusterWithoutActivityDocument,
    { id },
    { enabled: choice === "chosen" && isMissing },
  );

  const facts = without.data?.data.cluster ?? null;
  const isUnknown = whole.isError || without.isError;
  const reason = (): string | null => {
    if (activity === null) return query.isPending ? "Loading" : "Did not load";
    if (isMissing && facts) return reasonWithout(facts, isLive);
    if (isEmpty && (isMissing || wholeActivity === null)) return isUnknown ? "No data" : "Loading";
    return null;
  };
  const empty = reason();

  const threads = answer?.series?.[0]?.columns ?? null;
  const settled = activity && settledUntil(isLive, extent.to, activity.stepSeconds);
  const lane = useMemo((): PlotLane | null => {
    if (!isChosen || (choice === "default" && isMissing)) return null;
    if (empty !== null || activity === null) return emptyLane(empty ?? "");
    return functionLane(activity, threads, settled);
  }, [isChosen, choice, isMissing, empty, activity, threads, settled]);
  return { query, variables, lane, isMissing };
}
