import { Link } from "@tanstack/react-router";
import { useAccount } from "@/data/account.ts";
import { ErrorOccurrencesDocument } from "@/data/gql/graphql.ts";
import { count, counted } from "@/format/number.ts";
import { dayAndClock } from "@/format/time.ts";
import type { Sheet } from "@/panels/take_away/csv.ts";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { Button } from "@/ui/button.tsx";
import { Loaded, Section, Skeleton } from "@/ui/panel.tsx";
import { StateLabel } from "@/ui/state.tsx";
import { type Column, Table } from "@/ui/table.tsx";
import { place } from "./place.ts";
import { Traceback } from "./traceback.tsx";
import { type Occurrence, type Occurrences, pageOf } from "./use_occurrences.ts";

/** The traceback of the newest error of the group, and the errors with their places. */
export function OccurrencesPanel({ occurrences }: { occurrences: Occurrences }) {
  const { variables, query, first, rows } = occurrences;
  const account = useAccount();
  return (
    <Loaded name="The errors of the group" query={first} skeleton={<Skeleton rows={8} columns={4} />}>
      {(data) => {
        const total = pageOf(data)?.totalCount ?? rows.length;
        const [newest] = rows;
        if (!newest) return null;
        return (
          <>
            <Traceback
              type={newest.type}
              message={newest.message}
              traceback={newest.traceback}
              sub={`of the newest error; ${sameTracebackText(rows)} shown below`}
            />
            <Section
              title="Where"
              sub={`${count(rows.length)} of ${count(total)}, the newest first`}
              actions={
                <TakeAway
                  name="errors-of-group"
                  document={ErrorOccurrencesDocument}
                  variables={variables}
                  sheet={sheetOf(rows)}
                />
              }
            >
              <Table
                label="Errors of the group"
                columns={columns(account)}
                rows={rows}
                rowKey={(row) => row.id}
                totalCount={total}
                compact={(row) => <Compact row={row} />}
                foot={
                  query.hasNextPage && (
                    <Button
                      size="small"
                      disabled={query.isFetchingNextPage}
                      onClick={() => void query.fetchNextPage()}
                    >
                      {query.isFetchingNextPage ? "Loading…" : "Show 20 more"}
                    </Button>
                  )
                }
              />
            </Section>
          </>
        );
      }}
    </Loaded>
  );
}

/** Returns the number of errors whose traceback is that of the first one, in words. */
function sameTracebackText(rows: readonly Occurrence[]): string {
  const same = rows.filter(({ traceback }) => traceback === rows[0]?.traceback).length;
  const which = same === rows.length ? "the same for all" : `the same for ${count(same)} of the`;
  return `${which} ${counted(rows.length, "error")}`;
}

function sheetOf(rows: readonly Occurrence[]): Sheet {
  return {
    head: ["at", "cluster", "number", "user", "task", "worker", "retries"],
    rows: rows.map((row) => [
      row.at,
      row.cluster.name ?? row.cluster.schedulerId,
      row.cluster.number,
      row.cluster.user?.name ?? null,
      row.key,
      row.worker,
      row.retries,
    ]),
  };
}

function ClusterLink({ row, account }: { row: Occurrence; account: string }) {
  const { cluster } = row;
  return (
    <span className="truncated">
      <Link to="/$account/clusters/$number" params={{ account, number: String(cluster.number) }}>
        {cluster.name ?? cluster.schedulerId}
      </Link>{" "}
      <span className="faint">{cluster.user?.name}</span>
    </span>
  );
}

function columns(account: string): Column<Occurrence>[] {
  return [
    {
      id: "state",
      head: "State",
      width: "92px",
      cell: ({ cluster }) => <StateLabel state={cluster.state} />,
    },
    {
      id: "cluster",
      head: "Cluster",
      width: "minmax(120px, 1.2fr)",
      cell: (row) => <ClusterLink row={row} account={account} />,
    },
    {
      id: "at",
      head: "When",
      width: "minmax(112px, max-content)",
      cell: ({ at }) => <span className="num">{dayAndClock(at)}</span>,
    },
    {
      id: "task",
      head: "Task",
      width: "minmax(120px, 1.4fr)",
      cell: ({ key }) => (
        <code className="truncated" title={key}>
          {key}
        </code>
      ),
    },
    {
      id: "worker",
      head: "Worker",
      width: "minmax(120px, 1.4fr)",
      cell: (row) => (
        <span className="truncated" title={place(row)}>
          {place(row)}
        </span>
      ),
    },
    {
      id: "retries",
      head: "Retries",
      width: "64px",
      align: "end",
      cell: ({ retries }) => <span className={retries === 0 ? "faint" : undefined}>{count(retries)}</span>,
    },
  ];
}

function Compact({ row }: { row: Occurrence }) {
  const account = useAccount();
  return (
    <>
      <div className="truncated">
        <ClusterLink row={row} account={account} /> · {dayAndClock(row.at)}
      </div>
      <div className="muted small truncated">
        <code>{row.key}</code> · {place(row)}
      </div>
    </>
  );
}
