import { describe, expect, it } from "vitest";
import type { ClusterTabCountsQuery } from "@/data/gql/graphql.ts";
import { tabCounts } from "./counts.ts";
import type { HeaderCluster } from "./shown.ts";

const cluster = { totals: { workers: 28, errors: 0 } } as HeaderCluster;

function counted(functions: number, lines: number): ClusterTabCountsQuery["cluster"] {
  const prefixes = Array.from({ length: functions }, (_, i) => ({ prefix: `f${i}` }));
  return { id: "c", functions: prefixes, logs: { totalCount: lines } };
}

describe("the counts of the tabs", () => {
  it("are short", () => {
    expect(tabCounts(cluster, counted(17, 14_200))).toEqual({
      functions: "17",
      workers: "28",
      errors: "0",
      logs: "14.2k",
    });
  });

  it("say that there may be more functions than are listed", () => {
    expect(tabCounts(cluster, counted(200, 0)).functions).toBe("200+");
  });

  it("are absent while they are not known, and never 0 for that", () => {
    expect(tabCounts(cluster, undefined)).toEqual({ workers: "28", errors: "0" });
  });
});
