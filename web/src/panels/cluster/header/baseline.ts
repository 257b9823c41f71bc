import { ClusterComparisonAnswersDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import type { Answer } from "./answers.ts";

/** The run that the answers compare with: the last good one of the same work, as the server chose it. */
export interface Baseline {
  id: string;
  number: number;
  durationSeconds: number;
}

/** Returns the run that an answer names in its evidence. */
export function baselineOf(answer: Pick<Answer, "evidence"> | undefined): Baseline | null {
  for (const { node } of answer?.evidence ?? []) {
    if (node?.__typename === "Cluster") {
      return { id: node.id, number: node.number, durationSeconds: node.durationSeconds };
    }
  }
  return null;
}

/** Returns the baseline of a cluster. Null while it loads, and if there is no good run. */
export function useBaseline(id: string): Baseline | null {
  const query = useAsk(ClusterComparisonAnswersDocument, { id });
  return baselineOf(query.data?.data.cluster?.answers.whatChanged);
}
