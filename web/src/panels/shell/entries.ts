import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useAccount } from "@/data/account.ts";
import {
  type FoundClusterFragment,
  SearchClusterNumberDocument,
  SearchClustersDocument,
  type ShellQuery,
} from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { counted } from "@/format/number.ts";
import { dayAndClock } from "@/format/time.ts";
import type { ClustersSearch } from "@/routes/search_types.ts";
import { useAllCommands } from "@/ui/commands.ts";
import type { IconName } from "@/ui/icon.tsx";
import { STATE_NAMES } from "@/ui/state.tsx";
import { clusterNumber, matches } from "./match.ts";

export interface Entry {
  id: string;
  label: string;
  detail?: string;
  icon: IconName;
  run(): void;
}

export interface Group {
  name: string;
  entries: Entry[];
}

const DEBOUNCE_MS = 150;

const LISTS: { label: string; search: ClustersSearch }[] = [
  { label: "Running clusters", search: { state: "RUNNING" } },
  { label: "Idle clusters", search: { state: "IDLE" } },
  { label: "Lost clusters", search: { state: "LOST" } },
  { label: "Clusters with errors", search: { errors: "yes" } },
  { label: "Most expensive clusters", search: { sort: "-cost" } },
  { label: "Clusters of the last 24 hours", search: { started: "24h" } },
];

/** The results for a text: clusters of the server, and pages, lists, commands and accounts of the dashboard. */
export function useEntries(text: string, viewer: ShellQuery["viewer"] | null) {
  const clusters = useClusterEntries(text.trim());
  const local = useLocalGroups(viewer).map(({ name, entries }) => ({
    name,
    entries: entries.filter(({ label }) => matches(label, text)),
  }));
  const groups = [{ name: "Clusters", entries: clusters.entries }, ...local];
  return {
    groups: groups.filter(({ entries }) => entries.length > 0),
    isSearching: clusters.isSearching,
    failure: clusters.failure,
  };
}

function useClusterEntries(text: string) {
  const account = useAccount();
  const navigate = useNavigate();
  const settled = useSettled(text);
  const number = clusterNumber(settled);
  const named = useAsk(
    SearchClustersDocument,
    { text: settled },
    { enabled: settled !== "", keepsPrevious: settled !== "" },
  );
  const numbered = useAsk(
    SearchClusterNumberDocument,
    { number: number ?? "" },
    { enabled: number !== null },
  );
  if (text === "") return { entries: [], isSearching: false, failure: null };
  const entry = (cluster: FoundClusterFragment): Entry => ({
    id: `cluster-${cluster.number}`,
    label: `${cluster.name ?? cluster.schedulerId} #${cluster.number}`,
    detail: `${STATE_NAMES[cluster.state]} · ${cluster.user?.name ?? "left"} · ${dayAndClock(cluster.startedAt)}`,
    icon: "clusters",
    run: () =>
      void navigate({
        to: "/$account/clusters/$number",
        params: { account, number: String(cluster.number) },
      }),
  });
  const found = named.data?.data.viewer.account.clusters;
  const one = number === null ? null : numbered.data?.data.cluster;
  const entries = [...(one ? [one] : []), ...(found?.nodes ?? [])].map(entry);
  if (found && found.totalCount > found.nodes.length) {
    entries.push({
      id: "all-clusters",
      label: `All ${counted(found.totalCount, "cluster")} whose name contains “${settled}”`,
      icon: "right",
      run: () => void navigate({ to: "/$account/clusters", params: { account }, search: { q: settled } }),
    });
  }
  return {
    entries,
    isSearching: settled !== text || named.isPending || named.isPlaceholderData,
    failure: named.error ? `The clusters were not searched: ${named.error.message}` : null,
  };
}

/** Returns the text once it has not changed for a moment. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), DEBOUNCE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

function useLocalGroups(viewer: ShellQuery["viewer"] | null): Group[] {
  const account = useAccount();
  const navigate = useNavigate();
  const commands = useAllCommands().filter(({ isKeyOnly }) => !isKeyOnly);
  const entry = ({ id, label, keys, run }: (typeof commands)[number], icon: IconName): Entry => ({
    id,
    label,
    icon,
    run,
    ...(keys ? { detail: keys } : {}),
  });
  const pages = commands.filter(({ group }) => group === "Go to").map((command) => entry(command, "right"));
  const others = commands.filter(({ group }) => group !== "Go to");
  const lists = LISTS.map(
    ({ label, search }): Entry => ({
      id: `list-${label.replaceAll(" ", "-")}`,
      label,
      icon: "clusters",
      run: () => void navigate({ to: "/$account/clusters", params: { account }, search }),
    }),
  );
  const accounts = (viewer?.memberships ?? []).map(
    ({ slug, name, role }): Entry => ({
      id: `account-${slug}`,
      label: name,
      detail: slug === account ? "this account" : role.toLowerCase(),
      icon: "user",
      run: () => void navigate({ to: "/$account", params: { account: slug } }),
    }),
  );
  return [
    { name: "Pages", entries: [...pages, ...lists] },
    { name: "Commands", entries: others.map((command) => entry(command, "keyboard")) },
    { name: "Accounts", entries: accounts },
  ];
}
