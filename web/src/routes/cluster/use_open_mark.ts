import { useNavigate } from "@tanstack/react-router";
import type { Mark, MarkKind } from "@/charts/lanes/types.ts";
import { useAccount } from "@/data/account.ts";
import type { ClusterSearch } from "../search_types.ts";
import type { TabName } from "./tabs.ts";

/** The tab that knows more about a mark. Flags and events have no page of their own, but the logs of their time. */
const TAB_OF: Record<MarkKind, TabName> = { death: "workers", error: "errors", flag: "logs", event: "logs" };

/** The time around a flag or an event whose log lines are shown. */
const AROUND_SECONDS = 30;

type OpenedMark = Pick<Mark, "id" | "kind" | "at">;

/** Returns the tab of a mark and its search part. */
export function placeOfMark({ id, kind, at }: OpenedMark, search: ClusterSearch) {
  const tab = TAB_OF[kind];
  const { open: _, q: __, ...kept } = search;
  const iso = (seconds: number) => new Date(seconds * 1000).toISOString();
  if (tab === "logs")
    return { tab, search: { ...kept, from: iso(at - AROUND_SECONDS), to: iso(at + AROUND_SECONDS) } };
  return { tab, search: { ...(isWithin(at, kept) ? kept : withoutPart(kept)), open: id } };
}

/** Returns true if the time is in the chosen part. Errors outside of it are not listed. */
function isWithin(at: number, { from, to }: ClusterSearch): boolean {
  return !from || !to || (at * 1000 >= Date.parse(from) && at * 1000 < Date.parse(to));
}

function withoutPart({ from: _, to: __, zoom: ___, ...rest }: ClusterSearch): ClusterSearch {
  return rest;
}

/** Returns the function that opens what the page knows about a mark. */
export function useOpenMark(number: string): (mark: OpenedMark) => void {
  const account = useAccount();
  const navigate = useNavigate();
  return (mark) =>
    void navigate({
      to: "/$account/clusters/$number/$tab",
      params: { account, number, tab: TAB_OF[mark.kind] },
      search: (old) => placeOfMark(mark, old as ClusterSearch).search,
      resetScroll: false,
    });
}
