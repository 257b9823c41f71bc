import { Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { useAccount } from "@/data/account.ts";
import {
  OverviewNowDocument,
  type OverviewNowQuery,
  type OverviewNowQueryVariables,
} from "@/data/gql/graphql.ts";
import type { Asked } from "@/data/queries.ts";
import { runningTime } from "@/format/duration.ts";
import { money } from "@/format/money.ts";
import { count, counted } from "@/format/number.ts";
import { NOT_ADMIN, useIsAdmin } from "@/panels/clusters/change/permission.ts";
import { canStop } from "@/panels/clusters/rows.ts";
import type { Sheet } from "@/panels/take_away/csv.ts";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { Button } from "@/ui/button.tsx";
import { useIsNarrow } from "@/ui/media.ts";
import { Empty, Loaded, Section, Skeleton } from "@/ui/panel.tsx";
import { StateLabel } from "@/ui/state.tsx";
import { type Column, Table } from "@/ui/table.tsx";
import { hourly, hourlyText, idleFirst, type LiveCluster, threadSum } from "./arithmetic.ts";
import styles from "./overview.module.css";

const StopDialog = lazy(() => import("@/panels/clusters/change/stop_dialog.tsx"));

interface LivePanelProps {
  query: Asked<OverviewNowQuery>;
  variables: OverviewNowQueryVariables;
}

/** The live clusters, the idle ones first, and the reason why each of them runs. */
export function LivePanel({ query, variables }: LivePanelProps) {
  const account = useAccount();
  const navigate = useNavigate();
  const isAdmin = useIsAdmin();
  const isNarrow = useIsNarrow();
  const [clustersToStop, setClustersToStop] = useState<readonly LiveCluster[] | null>(null);
  return (
    <>
      <Loaded name="The live clusters" query={query} skeleton={<Skeleton rows={5} columns={4} />}>
        {({ viewer }) => {
          const { nodes, totalCount } = viewer.account.live;
          const idle = nodes.filter(({ state }) => state === "IDLE");
          const stoppable = idle.filter(canStop);
          const stopAll = idle.length > 0 && (
            <Button
              size={isNarrow ? "normal" : "small"}
              disabled={!isAdmin || stoppable.length === 0}
              title={isAdmin ? undefined : NOT_ADMIN}
              onClick={() => setClustersToStop(stoppable)}
            >
              Stop {stoppable.length} idle…
            </Button>
          );
          const shown =
            nodes.length < totalCount ? `, ${count(nodes.length)} of ${count(totalCount)} shown` : "";
          return (
            <Section
              title={
                totalCount === 0
                  ? "Nothing is live"
                  : `Live now: ${price(nodes, idle) ?? `${count(totalCount)}, ${count(idle.length)} of them idle`}${shown}`
              }
              actions={
                <>
                  <Link className="link" to="/$account/clusters" params={{ account }}>
                    All clusters
                  </Link>
                  <TakeAway
                    name="live-clusters"
                    document={OverviewNowDocument}
                    variables={variables}
                    sheet={sheetOf(idleFirst(nodes))}
                  />
                  {!isNarrow && stopAll}
                </>
              }
            >
              {nodes.length === 0 ? (
                <Empty title="No cluster reports now" />
              ) : (
                <Table
                  label="Live clusters"
                  columns={columns(nodes, totalCount, { account, isAdmin, onStop: setClustersToStop })}
                  rows={idleFirst(nodes)}
                  rowKey={({ id }) => id}
                  totalCount={totalCount}
                  hasSums
                  compact={(row) => <Compact row={row} />}
                  onOpen={({ number }) =>
                    void navigate({
                      to: "/$account/clusters/$number",
                      params: { account, number: String(number) },
                    })
                  }
                />
              )}
              {isNarrow && <div className={styles.stopAll}>{stopAll}</div>}
            </Section>
          );
        }}
      </Loaded>
      <Suspense>
        {clustersToStop && (
          <StopDialog
            rows={clustersToStop}
            onClose={() => setClustersToStop(null)}
            onDone={() => void query.refetch()}
          />
        )}
      </Suspense>
    </>
  );
}

/** Returns the price of an hour, and the idle part of it. Null if the price of a cluster is unknown. */
function price(live: readonly LiveCluster[], idle: readonly LiveCluster[]): string | null {
  const [total, idlePart] = [hourly(live), hourly(idle)];
  return total && `${hourlyText(total)}, ${idlePart?.text ?? "none"} of it idle`;
}

/** Returns the reason why the cluster runs, in words. */
function reason(row: LiveCluster): string {
  return row.runReasons[0]?.detail ?? "The reason is unknown";
}

function Why({ row }: { row: LiveCluster }) {
  return (
    <span className="truncated" title={reason(row)}>
      {row.state === "IDLE" && <span className={styles.idle}>idle {runningTime(row.idleSeconds)}, </span>}
      {reason(row)}
      {row.totals.tasksErred > 0 && `, ${counted(row.totals.tasksErred, "task")} failed`}
    </span>
  );
}

interface RowActions {
  account: string;
  isAdmin: boolean;
  onStop(rows: readonly LiveCluster[]): void;
}

function columns(
  rows: readonly LiveCluster[],
  total: number,
  { account, isAdmin, onStop }: RowActions,
): Column<LiveCluster>[] {
  const threads = threadSum(rows.filter(({ now }) => now !== null));
  const unknown = rows.filter(({ now }) => now === null).length;
  const stopColumn: Column<LiveCluster> = {
    id: "stop",
    head: <span className="hidden">Stop</span>,
    width: "100px",
    align: "end",
    cell: (row) => <Stop row={row} isAdmin={isAdmin} onStop={onStop} />,
  };
  return [
    {
      id: "state",
      head: "State",
      width: "96px",
      cell: ({ state }) => <StateLabel state={state} />,
      sum: rows.length < total ? `${count(rows.length)} of ${count(total)}` : `${count(total)} live`,
    },
    {
      id: "cluster",
      head: "Cluster",
      width: "minmax(150px, 1fr)",
      cell: (row) => (
        <span className="truncated">
          <Link to="/$account/clusters/$number" params={{ account, number: String(row.number) }}>
            {row.name ?? row.schedulerId}
          </Link>{" "}
          <span className="faint">{row.user?.name}</span>
        </span>
      ),
    },
    { id: "why", head: "Why it runs", width: "minmax(160px, 2fr)", cell: (row) => <Why row={row} /> },
    {
      id: "threads",
      head: "Threads",
      width: "76px",
      align: "end",
      cell: ({ now }) => (now ? count(now.threads) : "–"),
      sum: threads === null ? "–" : `${count(threads)}${unknown > 0 ? ` + ${unknown} unknown` : ""}`,
    },
    {
      id: "price",
      head: "Per hour",
      width: "72px",
      align: "end",
      cell: ({ costPerHour }) => (costPerHour ? money(costPerHour.amount, costPerHour.currency) : "–"),
      sum: hourly(rows)?.text ?? "–",
    },
    ...(rows.some(({ state }) => state === "IDLE") ? [stopColumn] : []),
  ];
}

function sheetOf(rows: readonly LiveCluster[]): Sheet {
  return {
    head: [
      "state",
      "cluster",
      "number",
      "user",
      "idle seconds",
      "why it runs",
      "threads",
      "cost per hour",
      "currency",
    ],
    rows: rows.map((row) => [
      row.state,
      row.name ?? row.schedulerId,
      row.number,
      row.user?.name ?? null,
      row.idleSeconds,
      reason(row),
      row.now?.threads ?? null,
      row.costPerHour?.amount ?? null,
      row.costPerHour?.currency ?? null,
    ]),
  };
}

/** Stops an idle cluster. One that has work is stopped on its own page or in the list. */
function Stop({ row, isAdmin, onStop }: Omit<RowActions, "account"> & { row: LiveCluster }) {
  if (row.state !== "IDLE") return null;
  if (!canStop(row)) return <span className="faint small">Stopping</span>;
  return (
    <Button
      size="small"
      look="danger"
      icon="stop"
      aria-label={`Stop ${row.name ?? row.schedulerId}…`}
      disabled={!isAdmin}
      title={isAdmin ? undefined : NOT_ADMIN}
      onClick={() => onStop([row])}
    >
      Stop
    </Button>
  );
}

function Compact({ row }: { row: LiveCluster }) {
  return (
    <>
      <div className={styles.compactLine}>
        <StateLabel state={row.state} />
        <strong className="truncated grow">{row.name ?? row.schedulerId}</strong>
        <span className="num">{row.now ? counted(row.now.threads, "thread") : "–"}</span>
      </div>
      <div className="muted small truncated">
        <Why row={row} />
      </div>
    </>
  );
}
