import { useNavigate } from "@tanstack/react-router";
import type { ClusterSearch } from "../search_types.ts";

type Change = { [Name in keyof ClusterSearch]?: ClusterSearch[Name] | undefined };

/** Returns the function that changes the search part of the cluster's page and keeps the tab. */
export function useSetClusterSearch(): (change: Change) => void {
  const navigate = useNavigate();
  return (change) =>
    void navigate({
      // A route's name in the place of the dot would lead to the first tab.
      to: ".",
      search: ((old: ClusterSearch) => ({ ...old, ...change })) as never,
      replace: true,
      resetScroll: false,
    });
}
