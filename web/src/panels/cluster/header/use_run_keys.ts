import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { useAccount } from "@/data/account.ts";
import { ask } from "@/data/ask.ts";
import { RunsBesideDocument } from "@/data/gql/graphql.ts";
import type { ClusterSearch } from "@/routes/search_types.ts";
import { useCommands } from "@/ui/commands.ts";
import { runBeside, runsVariables, type Side } from "./runs.ts";
import type { HeaderCluster } from "./shown.ts";

/** Gives keys to the runs of the same work before and after the cluster. Returns why a key led nowhere. */
export function useRunKeys(cluster: HeaderCluster): string {
  const account = useAccount();
  const navigate = useNavigate();
  const { tab } = useParams({ strict: false });
  const [said, setSaid] = useState({ of: "", text: "" });
  const say = (text: string) => setSaid({ of: cluster.id, text });
  const go = async (side: Side) => {
    const variables = runsVariables(cluster, side);
    if (!variables) return say("Runs are found by the name and the user, and one of them is missing here");
    try {
      const { data } = await ask(RunsBesideDocument, variables, { account });
      const run = runBeside(cluster, side, data.viewer.account.clusters);
      if (typeof run === "string") return say(run);
      const number = String(run);
      void navigate({
        ...(tab
          ? { to: "/$account/clusters/$number/$tab", params: { account, number, tab } }
          : { to: "/$account/clusters/$number", params: { account, number } }),
        search: ((old: ClusterSearch) => ({ by: old.by, unit: old.unit, lanes: old.lanes })) as never,
        resetScroll: false,
      });
    } catch (error) {
      say(error instanceof Error ? error.message : String(error));
    }
  };
  useCommands([
    {
      id: "earlier-run",
      label: "Earlier run of this name",
      keys: "[",
      group: "Page",
      run: () => void go("earlier"),
    },
    {
      id: "later-run",
      label: "Later run of this name",
      keys: "]",
      group: "Page",
      run: () => void go("later"),
    },
  ]);
  return said.of === cluster.id ? said.text : "";
}
