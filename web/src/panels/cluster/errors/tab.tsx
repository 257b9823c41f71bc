import { Link, useSearch } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { useAccount } from "@/data/account.ts";
import {
  ClusterErrorGroupsDocument,
  type ClusterErrorGroupsQuery,
  ClusterErrorsDocument,
  type ClusterErrorsQuery,
} from "@/data/gql/graphql.ts";
import { type Asked, useAsk, useAskPages } from "@/data/queries.ts";
import { count, counted } from "@/format/number.ts";
import errorStyles from "@/panels/errors/errors.module.css";
import { GroupHead } from "@/panels/errors/group_list.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { usePart } from "@/routes/cluster/part.ts";
import type { ClusterTabProps, ShownCluster } from "@/routes/cluster/tabs.ts";
import { useSetClusterSearch } from "@/routes/cluster/use_cluster_search.ts";
import { Button } from "@/ui/button.tsx";
import { useCommands } from "@/ui/commands.ts";
import { useMedia } from "@/ui/media.ts";
import { Empty, Loaded, Section, Skeleton } from "@/ui/panel.tsx";
import { VerdictMark } from "@/ui/verdict.tsx";
import { Absent, Missing } from "../receipts/absent.tsx";
import { missing, receiptOf } from "../receipts/receipts.ts";
import { GroupErrors } from "./group_errors.tsx";
import { chosenHere, groupsHere, type HereRow, hereText, type Period, UNGROUPED } from "./here.ts";
import { ERRORS, withoutErrors } from "./without.ts";

const ROUTE = "/$account/clusters/$number";

/** The groups of similar errors with errors on this cluster, and one of them beside the list. */
export default function ErrorsTab({ cluster }: ClusterTabProps) {
  const query = useAsk(ClusterErrorGroupsDocument, { id: cluster.id });
  return (
    <Loaded name="The errors" query={query} skeleton={<Skeleton rows={6} columns={3} />}>
      {(data) => <Errors cluster={cluster} known={data} />}
    </Loaded>
  );
}

function Errors({ cluster, known }: { cluster: ShownCluster; known: ClusterErrorGroupsQuery }) {
  const { open } = useSearch({ from: ROUTE });
  const { from, to } = usePart(cluster.startedAt);
  const setSearch = useSetClusterSearch();
  const isNarrow = useMedia("(max-width: 1100px)");
  const variables = { id: cluster.id };
  const query = useAskPages(ClusterErrorsDocument, variables, (data: ClusterErrorsQuery) => {
    const info = data.cluster?.errors.pageInfo;
    return info?.hasNextPage ? info.endCursor : null;
  });
  useNewErrors(query, known.cluster?.totals.errors ?? 0);
  const now = Date.now();
  const period = from && to ? { from, to } : null;
  const pages = query.data?.pages ?? [];
  const errors = pages.flatMap(({ data }) => data.cluster?.errors.nodes ?? []);
  const total = pages[0]?.data.cluster?.errors.totalCount ?? 0;
  const list = known.viewer.account.errorGroups;
  const rows: HereRow[] = groupsHere(list?.nodes ?? [], errors, total, period);
  const named = chosenHere(rows, open);
  // With room beside the list, its first row is open.
  const { row, error } = named.row || isNarrow ? named : chosenHere(rows, rows[0]?.id);
  useRowKeys(rows, row, (id) => setSearch({ open: id }));
  const receipt = known.cluster ? receiptOf(known.cluster, "USER_ERRORS") : undefined;
  const first = { ...query, data: pages[0] } as unknown as Asked<ClusterErrorsQuery>;
  return (
    <Loaded name="The errors" query={first} skeleton={<Skeleton rows={6} columns={3} />}>
      {() => {
        if (total === 0 && rows.length === 0) return <NoErrors known={known} />;
        return (
          <Section
            title={title(rows, period)}
            sub={`${count(errors.length)} of ${counted(total, "stored error")} ${errors.length === 1 ? "is" : "are"} loaded, the newest first`}
            actions={
              <TakeAway
                name="errors"
                document={ClusterErrorsDocument}
                variables={variables}
                sheet={sheet(rows)}
              />
            }
          >
            <Missing sentences={missing(receipt, known.cluster?.dropped.errors ?? 0, ERRORS)} />
            {rows.length === 0 ? (
              <Empty title="No error in the chosen part">
                {counted(total, "error")} occurred at other times. Clear the choice to see them.
              </Empty>
            ) : (
              <div className={errorStyles.columns}>
                {!(isNarrow && row) && (
                  <div>
                    <List cluster={cluster} rows={rows} chosen={row?.id ?? null} now={now} />
                    {list && list.nodes.length < list.totalCount && (
                      <p className="muted small">
                        The {count(list.nodes.length)} groups of {count(list.totalCount)} with the newest
                        errors.
                      </p>
                    )}
                    {query.hasNextPage && (
                      <p>
                        <Button
                          size="small"
                          disabled={query.isFetchingNextPage}
                          onClick={() => void query.fetchNextPage()}
                        >
                          {query.isFetchingNextPage ? "Loading…" : "Load 100 older errors"}
                        </Button>
                      </p>
                    )}
                  </div>
                )}
                {row && (
                  <div className={errorStyles.detail}>
                    {isNarrow && (
                      <Button size="small" onClick={() => setSearch({ open: undefined })}>
                        All groups
                      </Button>
                    )}
                    <GroupErrors
                      key={row.id}
                      row={row}
                      error={error}
                      now={now}
                      onOpen={(id) => setSearch({ open: id })}
                    />
                  </div>
                )}
              </div>
            )}
          </Section>
        );
      }}
    </Loaded>
  );
}

/** Asks for the loaded pages again once the cluster has reported new errors. */
function useNewErrors({ refetch }: { refetch(): unknown }, errors: number): void {
  const seen = useRef(errors);
  useEffect(() => {
    if (errors === seen.current) return;
    seen.current = errors;
    void refetch();
  }, [errors, refetch]);
}

function title(rows: readonly HereRow[], period: Period | null): string {
  const groups = rows.filter(({ id }) => id !== UNGROUPED).length;
  const loose = groups < rows.length ? " and errors of no group" : "";
  return `${counted(groups, "group")} of similar errors${loose}${period ? " in the chosen part" : ""}`;
}

function sheet(rows: readonly HereRow[]) {
  return {
    head: ["class", "status", "at", "key", "function", "worker", "retries"],
    rows: rows.flatMap(({ group, errors }) =>
      errors.map(
        ({ type, at, key, taskGroup, worker, retries }) =>
          [type, group?.status ?? null, at, key, taskGroup?.prefix ?? null, worker, retries] as const,
      ),
    ),
  };
}

interface ListProps {
  cluster: ShownCluster;
  rows: readonly HereRow[];
  chosen: string | null;
  now: number;
}

function List({ cluster, rows, chosen, now }: ListProps) {
  const account = useAccount();
  return (
    <ul className={errorStyles.list} aria-label="Groups of similar errors">
      {rows.map((row) => (
        <li key={row.id}>
          <Link
            to="/$account/clusters/$number/$tab"
            params={{ account, number: String(cluster.number), tab: "errors" }}
            search={(search) => ({ ...search, open: row.id })}
            replace
            resetScroll={false}
            className={errorStyles.group}
            aria-current={row.id === chosen ? "true" : undefined}
            data-group={row.id}
          >
            {row.group ? (
              <GroupHead group={row.group} now={now} lastAt={row.errors[0]?.at ?? null} />
            ) : (
              <>
                <VerdictMark verdict="UNKNOWN" />
                <strong className={errorStyles.groupHead}>
                  {row.id === UNGROUPED ? "Errors of no group" : (row.errors[0]?.type ?? "Class unknown")}
                </strong>
                <span className={errorStyles.groupTitle}>
                  {row.id === UNGROUPED ? "stored before errors were grouped" : "the group did not load"}
                </span>
              </>
            )}
            <span className={`${errorStyles.groupFoot} muted small`}>
              <span>
                <strong className="num">{hereText(row)}</strong> here
              </span>
              <span className="grow" />
              {row.group && (
                <span>
                  {count(row.group.occurrenceCount)} on {counted(row.group.clusterCount, "cluster")}
                </span>
              )}
            </span>
          </Link>
        </li>
      ))}
    </ul>
  );
}

/** The reason why the list is empty. */
function NoErrors({ known }: { known: ClusterErrorGroupsQuery }) {
  if (!known.cluster) return null;
  return (
    <>
      <Absent absence={withoutErrors(known.cluster)} />
      <Missing sentences={missing(undefined, known.cluster.dropped.errors, ERRORS)} />
    </>
  );
}

function useRowKeys(rows: readonly HereRow[], chosen: HereRow | null, open: (id: string) => void): void {
  const step = (by: number) => {
    const at = rows.findIndex(({ id }) => id === chosen?.id);
    const next = rows[Math.min(rows.length - 1, Math.max(0, at + by))];
    if (next) open(next.id);
  };
  const key = { group: "Table" as const, isKeyOnly: true };
  useCommands([
    { ...key, id: "cluster-errors-next", label: "Next error", keys: "j", run: () => step(1) },
    { ...key, id: "cluster-errors-previous", label: "Previous error", keys: "k", run: () => step(-1) },
  ]);
}
