import { useQueries } from "@tanstack/react-query";
import { useAccount } from "@/data/account.ts";
import { ask } from "@/data/ask.ts";
import { ClusterCountDocument } from "@/data/gql/graphql.ts";
import { askKey } from "@/data/queries.ts";
import { counted } from "@/format/number.ts";
import type { ClustersSearch } from "@/routes/search_types.ts";
import { FilterChip } from "@/ui/chip.tsx";
import { Empty } from "@/ui/panel.tsx";
import styles from "./clusters.module.css";
import { clusterFilter, type KnownUser, shownFilters, shownStates } from "./filter.ts";

interface NoClustersProps {
  search: ClustersSearch;
  users: readonly KnownUser[];
  onSearch(search: ClustersSearch): void;
}

/** The message that no cluster passes: the filters, and how many would pass without each of them. */
export function NoClusters({ search, users, onSearch }: NoClustersProps) {
  const account = useAccount();
  const filters = [...shownStates(search), ...shownFilters(search)];
  const counts = useQueries({
    queries: filters.map(({ without }) => {
      const variables = { filter: clusterFilter(without, users, Date.now()) };
      return {
        queryKey: askKey(account, ClusterCountDocument, variables),
        queryFn: ({ signal }: { signal: AbortSignal }) =>
          ask(ClusterCountDocument, variables, { account, signal }),
      };
    }),
  });
  if (filters.length === 0) return <Empty title="No cluster has reported yet" />;
  return (
    <div>
      <Empty title={filters.length === 1 ? "No cluster passes the filter" : "No cluster passes all filters"}>
        {counted(filters.length, "filter")} {filters.length === 1 ? "is" : "are"} set. Beside each is the
        number of clusters that pass without it.
      </Empty>
      <div className={styles.without}>
        {filters.map(({ id, name, value, without }, index) => (
          <FilterChip
            key={id}
            name={name}
            value={value}
            onRemove={() => onSearch(without)}
            without={counts[index]?.data?.data.viewer.account.clusters.totalCount ?? null}
          />
        ))}
      </div>
    </div>
  );
}
