import { type ClusterFilter, type ClusterState, ClusterStatesDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { QueryState } from "@/ui/panel.tsx";
import { Segmented, type SegmentedOption } from "@/ui/segmented.tsx";
import { STATE_NAMES } from "@/ui/state.tsx";

const ORDER = ["RUNNING", "IDLE", "STARTING", "CLOSING", "CLOSED", "LOST"] as const satisfies ClusterState[];

interface StateTabsProps {
  /** The filter of the list. Its states are those of the tab. */
  filter: ClusterFilter;
  onChange(state: string | undefined): void;
}

/** The states as tabs, with the number of clusters that pass the other filters. */
export function StateTabs({ filter, onChange }: StateTabsProps) {
  const { states, ...rest } = filter;
  const one = (state: ClusterState) => ({ ...rest, states: [state] });
  const query = useAsk(
    ClusterStatesDocument,
    {
      all: rest,
      starting: one("STARTING"),
      running: one("RUNNING"),
      idle: one("IDLE"),
      closing: one("CLOSING"),
      closed: one("CLOSED"),
      lost: one("LOST"),
    },
    { keepsPrevious: true },
  );
  const account = query.data?.data.viewer.account;
  const counts: Record<string, number | undefined> = {
    ALL: account?.all.totalCount,
    STARTING: account?.starting.totalCount,
    RUNNING: account?.running.totalCount,
    IDLE: account?.idle.totalCount,
    CLOSING: account?.closing.totalCount,
    CLOSED: account?.closed.totalCount,
    LOST: account?.lost.totalCount,
  };
  const value = states?.join(",") ?? "ALL";
  const options: SegmentedOption<string>[] = [{ value: "ALL", label: "All", count: counts.ALL ?? null }];
  for (const state of ORDER) {
    // Closing takes seconds, so this tab is there only when it has something.
    if (state === "CLOSING" && !counts.CLOSING && value !== state) continue;
    options.push({ value: state, label: STATE_NAMES[state], count: counts[state] ?? null });
  }
  if (states && states.length > 1) {
    options.push({ value, label: states.map((state) => STATE_NAMES[state]).join(" or ") });
  }
  return (
    <>
      <Segmented
        label="State"
        options={options}
        value={value}
        onChange={(next) => onChange(next === "ALL" ? undefined : next)}
      />
      {/* The tabs work without their numbers; here it is said if these did not load. */}
      {!query.isPending && <QueryState name="The numbers of clusters by state" query={query} />}
    </>
  );
}
