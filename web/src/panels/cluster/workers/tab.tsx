import { useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useContext } from "react";
import {
  ClusterWorkersDocument,
  type ClusterWorkersQuery,
  type ClusterWorkersQueryVariables,
} from "@/data/gql/graphql.ts";
import { type Asked, useAskPages } from "@/data/queries.ts";
import { bytes } from "@/format/bytes.ts";
import { count, counted, share } from "@/format/number.ts";
import { clock, clockSeconds } from "@/format/time.ts";
import { deathsOf, type EndedWorkers } from "@/panels/cluster/timeline/ended_workers.ts";
import { useEndedWorkers } from "@/panels/cluster/timeline/use_ended_workers.ts";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { PlayedContext } from "@/routes/cluster/part.ts";
import type { ClusterTabProps, ShownCluster } from "@/routes/cluster/tabs.ts";
import { useSetClusterSearch } from "@/routes/cluster/use_cluster_search.ts";
import { Empty, Loaded, QueryState, Section, Skeleton } from "@/ui/panel.tsx";
import { type Column, Table } from "@/ui/table.tsx";
import { diedFirst, END_NAMES, standing, type Worker, workersAt } from "./ends.ts";
import { workersSheet } from "./sheet.ts";
import styles from "./workers.module.css";

const PostMortem = lazy(async () => ({ default: (await import("./post_mortem.tsx")).PostMortem }));

const ROUTE = "/$account/clusters/$number";

/** The workers of the cluster, a cell for each, and the post-mortem of the chosen one. */
export default function WorkersTab({ cluster }: ClusterTabProps) {
  const { open } = useSearch({ from: ROUTE });
  const setSearch = useSetClusterSearch();
  const variables = { id: cluster.id, first: 100 };
  const query = useAskPages<ClusterWorkersQuery, ClusterWorkersQueryVariables>(
    ClusterWorkersDocument,
    variables,
    (data) => {
      const info = data.cluster?.workers.pageInfo;
      return info?.hasNextPage ? info.endCursor : null;
    },
  );
  const { query: endedQuery, ended } = useEndedWorkers(cluster.id);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const onNearEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const { to: playedTo } = useContext(PlayedContext);
  const setOpen = (id: string | undefined) => setSearch({ open: id });
  const first = { ...query, data: query.data?.pages[0] } as unknown as Asked<ClusterWorkersQuery>;
  return (
    <Loaded name="The workers" query={first} skeleton={<Skeleton rows={5} columns={6} />}>
      {(data) => {
        const loaded = query.data?.pages.flatMap((page) => page.data.cluster?.workers.nodes ?? []) ?? [];
        const workers = playedTo === null ? loaded : workersAt(loaded, playedTo);
        const total = data.cluster?.workers.totalCount ?? 0;
        if (total === 0) return <Empty title="No worker has joined yet" />;
        return (
          <Section
            title={playedTo === null ? title(total, ended) : titleAt(workers, playedTo)}
            sub={sub(loaded.length, total, ended)}
            actions={
              <TakeAway
                name="workers"
                document={ClusterWorkersDocument}
                variables={variables}
                sheet={workersSheet(workers)}
              />
            }
          >
            {/* The deaths are counted among all workers that ended, of which the list may not have loaded some. */}
            <QueryState name="The ends of workers" query={endedQuery} />
            <Cells workers={workers} chosen={open} onChoose={setOpen} />
            {open && (
              <Suspense fallback={<Skeleton rows={6} columns={4} />}>
                <PostMortem key={open} id={open} cluster={cluster} onClose={() => setOpen(undefined)} />
              </Suspense>
            )}
            <Table
              label="Workers"
              columns={columns(cluster)}
              rows={diedFirst(workers)}
              rowKey={({ id }) => id}
              totalCount={total}
              onNearEnd={onNearEnd}
              isSelected={({ id }) => id === open}
              onOpen={({ id }) => setOpen(id === open ? undefined : id)}
            />
          </Section>
        );
      }}
    </Loaded>
  );
}

/** Returns the number of workers, and of those that died as far as their ends are known. */
function title(total: number, ended: EndedWorkers): string {
  const { died, isLeast } = deathsOf(ended);
  if (died === 0) return counted(total, "worker");
  return `${isLeast ? "At least " : ""}${counted(died, "worker")} of ${count(total)} died`;
}

/** Returns the number of workers that were alive at a time of the playback. */
function titleAt(workers: readonly Worker[], at: string): string {
  const alive = workers.filter((worker) => standing(worker) === "alive").length;
  return `${counted(alive, "worker")} at ${clockSeconds(at)}, ${count(workers.length)} had joined`;
}

function sub(loaded: number, total: number, ended: EndedWorkers): string | undefined {
  const parts = [
    loaded < total && `${count(loaded)} of ${count(total)} are loaded`,
    deathsOf(ended).isLeast &&
      `deaths are counted among ${count(ended.workers.length)} of ${count(ended.totalCount)} that ended`,
  ];
  return parts.filter(Boolean).join(" · ") || undefined;
}

interface CellsProps {
  workers: readonly Worker[];
  chosen: string | undefined;
  onChoose(id: string | undefined): void;
}

const MARKS = { alive: "", ended: "–", died: "✕" } as const;

function Cells({ workers, chosen, onChoose }: CellsProps) {
  return (
    <div className={styles.grid}>
      {workers.map((worker) => (
        <button
          type="button"
          key={worker.id}
          className={styles.cell}
          data-standing={standing(worker)}
          aria-pressed={worker.id === chosen}
          aria-label={`Worker ${worker.name}, ${worker.end ? END_NAMES[worker.end.kind] : standing(worker)}`}
          title={worker.name}
          onClick={() => onChoose(worker.id === chosen ? undefined : worker.id)}
        >
          {MARKS[standing(worker)]}
        </button>
      ))}
    </div>
  );
}

function columns(cluster: ShownCluster): Column<Worker>[] {
  return [
    { id: "name", head: "Worker", width: "minmax(80px, 1fr)", cell: ({ name }) => name },
    { id: "host", head: "Host", width: "minmax(90px, 1fr)", cell: ({ host }) => host ?? "unknown" },
    { id: "threads", head: "Threads", width: "80px", align: "end", cell: ({ threads }) => count(threads) },
    {
      id: "limit",
      head: "Memory limit",
      width: "110px",
      align: "end",
      cell: ({ memoryLimit }) => (memoryLimit === null ? "none" : bytes(memoryLimit)),
    },
    {
      id: "life",
      head: `Life, ${clock(cluster.startedAt)} – ${clock(cluster.lastAt)}`,
      width: "minmax(140px, 2fr)",
      cell: (worker) => <Life worker={worker} cluster={cluster} />,
    },
    {
      id: "last",
      head: "Last memory",
      width: "130px",
      align: "end",
      cell: ({ end }) =>
        end?.lastMemory == null
          ? "–"
          : bytes(end.lastMemory) + (end.lastMemoryShare === null ? "" : ` · ${share(end.lastMemoryShare)}`),
    },
    {
      id: "lost",
      head: "Lost results",
      width: "100px",
      align: "end",
      cell: ({ end }) => (end ? count(end.lostResults) : "–"),
    },
    {
      id: "end",
      head: "End",
      width: "170px",
      cell: (worker) => (
        <span className={standing(worker) === "died" ? styles.died : undefined}>
          {worker.end ? END_NAMES[worker.end.kind] : standing(worker) === "alive" ? "alive" : "not reported"}
        </span>
      ),
    },
  ];
}

function Life({ worker, cluster }: { worker: Worker; cluster: ShownCluster }) {
  const start = Date.parse(cluster.startedAt);
  const whole = Math.max(1, Date.parse(cluster.lastAt) - start);
  const from = (Date.parse(worker.startedAt) - start) / whole;
  const to = (Date.parse(worker.endedAt ?? cluster.lastAt) - start) / whole;
  return (
    <div className={styles.life}>
      <i
        data-standing={standing(worker)}
        style={{
          left: `${Math.max(0, from) * 100}%`,
          width: `${Math.max(0, Math.min(1, to) - from) * 100}%`,
        }}
      />
    </div>
  );
}
