import { Link, useNavigate } from "@tanstack/react-router";
import { useAccount } from "@/data/account.ts";
import type { OverviewNowQuery } from "@/data/gql/graphql.ts";
import type { Asked } from "@/data/queries.ts";
import { duration } from "@/format/duration.ts";
import { count, counted } from "@/format/number.ts";
import { Empty, Loaded, Section, Skeleton } from "@/ui/panel.tsx";
import { StateLabel } from "@/ui/state.tsx";
import { type Column, Table } from "@/ui/table.tsx";
import { idleFirst, type LiveCluster, threadSum } from "./arithmetic.ts";
import styles from "./overview.module.css";

/** The live clusters, the idle ones first, and the reason why each of them runs. */
export function LivePanel({ query }: { query: Asked<OverviewNowQuery> }) {
  const account = useAccount();
  const navigate = useNavigate();
  return (
    <Loaded name="The live clusters" query={query} skeleton={<Skeleton rows={5} columns={4} />}>
      {({ viewer }) => {
        const { nodes, totalCount } = viewer.account.live;
        const idle = nodes.filter(({ state }) => state === "IDLE").length;
        const shown =
          nodes.length < totalCount ? `, ${count(nodes.length)} of ${count(totalCount)} shown` : "";
        return (
          <Section
            title={
              totalCount === 0
                ? "Nothing is live"
                : `Live now: ${count(totalCount)}, ${count(idle)} of them idle${shown}`
            }
            actions={
              <Link className="link" to="/$account/clusters" params={{ account }}>
                All clusters
              </Link>
            }
          >
            {nodes.length === 0 ? (
              <Empty title="No cluster reports now" />
            ) : (
              <Table
                label="Live clusters"
                columns={columns(nodes, totalCount, account)}
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
          </Section>
        );
      }}
    </Loaded>
  );
}

/** Returns the reason why the cluster runs, in words. */
function reason(row: LiveCluster): string {
  return row.runReasons[0]?.detail ?? "The reason is unknown";
}

function Why({ row }: { row: LiveCluster }) {
  return (
    <span className="truncated" title={reason(row)}>
      {row.state === "IDLE" && <span className={styles.idle}>idle {duration(row.idleSeconds)}, </span>}
      {reason(row)}
      {row.totals.tasksErred > 0 && `, ${counted(row.totals.tasksErred, "task")} failed`}
    </span>
  );
}

function columns(rows: readonly LiveCluster[], total: number, account: string): Column<LiveCluster>[] {
  const threads = threadSum(rows.filter(({ now }) => now !== null));
  const unknown = rows.filter(({ now }) => now === null).length;
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
      width: "minmax(130px, 1fr)",
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
      width: "84px",
      align: "end",
      cell: ({ now }) => (now ? count(now.threads) : "–"),
      sum: threads === null ? "–" : `${count(threads)}${unknown > 0 ? ` + ${unknown} unknown` : ""}`,
    },
  ];
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
