import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useAccount } from "@/data/account.ts";
import type { ClusterFilter, ClustersQuery } from "@/data/gql/graphql.ts";
import type { Asked } from "@/data/queries.ts";
import { count } from "@/format/number.ts";
import type { ClustersSearch } from "@/routes/search_types.ts";
import { Button } from "@/ui/button.tsx";
import { useMedia } from "@/ui/media.ts";
import { Empty, Loaded, Skeleton } from "@/ui/panel.tsx";
import { BulkBar } from "./bulk_bar.tsx";
import styles from "./clusters.module.css";
import { ClustersTable } from "./clusters_table.tsx";
import { type ColumnName, columnsText, saveColumns, savedColumns, shownColumns } from "./column_choice.ts";
import { FilterBar } from "./filter_bar.tsx";
import { LiveRows } from "./live_rows.tsx";
import { NoClusters } from "./no_clusters.tsx";
import { orderText, parseOrder } from "./order.ts";
import { useSelection } from "./selection.ts";
import { StateTabs } from "./state_tabs.tsx";
import { Tools } from "./tools.tsx";
import { type Clusters, USER_DAYS, useClusters, useFilter, useUsers } from "./use_clusters.ts";

/** The clusters of the account, as the address filters and orders them. */
export function ClustersPage({ search }: { search: ClustersSearch }) {
  const account = useAccount();
  const navigate = useNavigate();
  const { filter, isUserUnknown } = useFilter(search);
  const [columns, setColumns] = useColumns(search);
  const onSearch = (next: ClustersSearch, replace = false) =>
    void navigate({ to: "/$account/clusters", search: next, params: { account }, replace });
  const onColumns = (next: ColumnName[]) => {
    setColumns(next);
    // In the address as well: a link shows the same columns in another browser.
    onSearch(withColumns(search, columnsText(next)), true);
  };
  return (
    <>
      <div className={styles.title}>
        <h1 className="h1">Clusters</h1>
        <span className="grow" />
        <Tools
          filter={filter}
          sort={search.sort}
          started={search.started}
          columns={columns}
          onColumns={onColumns}
        />
      </div>
      <div className={styles.states}>
        {filter && <StateTabs filter={filter} onChange={(state) => onSearch(withState(search, state))} />}
      </div>
      <FilterBar search={search} onSearch={onSearch} />
      {!filter && <Skeleton rows={8} columns={8} />}
      {filter && isUserUnknown && (
        <Empty title={`Nobody called ${search.user} used a cluster in the last ${USER_DAYS} days`}>
          The filter by user knows the users of these days.
        </Empty>
      )}
      {filter && !isUserUnknown && <List {...{ search, filter, columns, onSearch }} />}
    </>
  );
}

function withState({ state: _, ...rest }: ClustersSearch, state: string | undefined): ClustersSearch {
  return state === undefined ? rest : { ...rest, state };
}

function withColumns({ cols: _, ...rest }: ClustersSearch, cols: string | undefined): ClustersSearch {
  return cols === undefined ? rest : { ...rest, cols };
}

function useColumns(search: ClustersSearch): [ColumnName[], (columns: ColumnName[]) => void] {
  const [saved, setSaved] = useState(savedColumns);
  const isWide = useMedia("(min-width: 1101px)");
  const columns = useMemo(() => shownColumns(search.cols, saved, isWide), [search.cols, saved, isWide]);
  const change = (next: ColumnName[]) => {
    saveColumns(next);
    setSaved(savedColumns());
  };
  return [columns, change];
}

interface ListProps {
  search: ClustersSearch;
  filter: ClusterFilter;
  columns: ColumnName[];
  onSearch(search: ClustersSearch): void;
}

function List({ search, filter, columns, onSearch }: ListProps) {
  const account = useAccount();
  const users = useUsers(search.user !== undefined) ?? [];
  const clusters = useClusters(filter, search.sort, columns.includes("finished"));
  const { query, rows, sums, onNearEnd } = clusters;
  const selected = useSelection(account, rows);
  const order = parseOrder(search.sort);
  return (
    <Loaded name="The clusters" query={firstPage(query)} skeleton={<Skeleton rows={12} columns={9} />}>
      {({ viewer }) => (
        <>
          {!query.isPlaceholderData && (
            <LiveRows
              key={JSON.stringify(filter)}
              filter={filter}
              after={viewer.account.liveCursor}
              clusters={clusters}
            />
          )}
          {rows.length === 0 && !query.hasNextPage ? (
            <NoClusters search={search} users={users} onSearch={onSearch} />
          ) : (
            <>
              <ClustersTable
                rows={rows}
                sums={sums.data?.data.viewer.account.clusters ?? null}
                columns={columns}
                order={order}
                onOrder={(next) => onSearch(withSort(search, orderText(next)))}
                selected={selected}
                onNearEnd={onNearEnd}
              />
              <Foot clusters={clusters} />
              <BulkBar selected={selected} onChanged={clusters.refresh} />
            </>
          )}
        </>
      )}
    </Loaded>
  );
}

function withSort({ sort: _, ...rest }: ClustersSearch, sort: string | undefined): ClustersSearch {
  return sort === undefined ? rest : { ...rest, sort };
}

/** The number of rows that are loaded, of all that pass, and the limits of the sums. */
function Foot({ clusters }: { clusters: Clusters }) {
  const { rows, sums, query } = clusters;
  const total = sums.data?.data.viewer.account.clusters;
  const all = total?.totalCount ?? null;
  const isAll = !query.hasNextPage;
  return (
    <div className={styles.foot}>
      <span>
        {all === null
          ? `${count(rows.length)} clusters loaded`
          : `${count(rows.length)} of ${count(all)} clusters`}
        {query.isFetchingNextPage && ", loading more"}
        {!isAll && !query.isFetchingNextPage && !query.isFetchNextPageError && ", more as you scroll"}
        {total && !total.aggregates.usage && ". Use and cost are summed over at most 10,000 clusters"}
        {sums.error && ". The sums did not load"}
        {query.isFetchNextPageError && (
          <>
            {". The next rows did not load "}
            <Button size="small" onClick={() => void query.fetchNextPage()}>
              Retry
            </Button>
          </>
        )}
      </span>
      <span className={styles.keys}>
        {KEYS.map(([keys, words]) => (
          <span key={words}>
            {keys.split(" ").map((key) => (
              <kbd key={key} className={styles.key}>
                {key}
              </kbd>
            ))}{" "}
            {words}
          </span>
        ))}
      </span>
    </div>
  );
}

const KEYS = [
  ["j k", "move"],
  ["x", "select"],
  ["c", "compare"],
  ["Enter", "open"],
] as const;

/** The states of a list are those of its first page. */
function firstPage(query: Clusters["query"]): Asked<ClustersQuery> {
  const { isFetchNextPageError } = query;
  const error = isFetchNextPageError ? null : query.error;
  return { ...query, error, data: query.data?.pages[0] } as unknown as Asked<ClustersQuery>;
}
