import { Link } from "@tanstack/react-router";
import { Lanes } from "@/charts/lanes/lanes.tsx";
import { largest } from "@/charts/lanes/prepare.ts";
import { roundMax, roundMaxBytes } from "@/charts/lanes/scale.ts";
import type { PlotLane } from "@/charts/lanes/types.ts";
import { useAccount } from "@/data/account.ts";
import {
  WorkerLastLogsDocument,
  type WorkerLastLogsQuery,
  WorkerPostMortemDocument,
  type WorkerPostMortemQuery,
} from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { bytes } from "@/format/bytes.ts";
import { duration } from "@/format/duration.ts";
import { count, counted, share, threeDigits } from "@/format/number.ts";
import { clockSeconds } from "@/format/time.ts";
import { columns } from "@/panels/cluster/timeline/lane_kinds.ts";
import type { ShownCluster } from "@/routes/cluster/tabs.ts";
import { IconButton } from "@/ui/button.tsx";
import { Empty, Loaded, Skeleton } from "@/ui/panel.tsx";
import { END_NAMES, type Worker } from "./ends.ts";
import styles from "./workers.module.css";

interface PostMortemProps {
  /** The worker's identifier. The worker need not be among those that the list has loaded. */
  id: string;
  cluster: ShownCluster;
  onClose(): void;
}

/** The last moments of a worker: its memory, its tasks and its log. */
export function PostMortem({ id, cluster, onClose }: PostMortemProps) {
  const query = useAsk(WorkerPostMortemDocument, { worker: id });
  return (
    <Loaded name="The worker" query={query} skeleton={<Skeleton rows={6} columns={4} />}>
      {({ node }) => {
        const worker = workerOf(node, cluster);
        if (!worker) return <Empty title="The worker of this address is none of this cluster" />;
        return (
          <section className={styles.post} aria-label={`Worker ${worker.name}`}>
            <div className={styles.postHead}>
              <h3 className="h3">
                Worker {worker.name} {worker.end ? END_NAMES[worker.end.kind] : "is alive"}
              </h3>
              <span className="grow" />
              <IconButton icon="close" label="Close" onClick={onClose} />
            </div>
            <Facts worker={worker} />
            <WorkerLanes worker={worker} cluster={cluster} />
            <Keys worker={worker} />
            <Log worker={worker} cluster={cluster} />
          </section>
        );
      }}
    </Loaded>
  );
}

type Node = NonNullable<WorkerPostMortemQuery["node"]>;
type DetailedWorker = Extract<Node, { series: unknown }>;

function workerOf(node: Node | null, cluster: ShownCluster): DetailedWorker | null {
  return node && "series" in node && node.cluster.id === cluster.id ? node : null;
}

function Facts({ worker }: { worker: Worker }) {
  const { end } = worker;
  const endedAt = end?.at ?? worker.endedAt;
  const lived = endedAt ? (Date.parse(endedAt) - Date.parse(worker.startedAt)) / 1000 : null;
  return (
    <div className={styles.facts}>
      <span>
        joined <b className="num">{clockSeconds(worker.startedAt)}</b>
      </span>
      {end && lived !== null && (
        <span>
          ended <b className="num">{clockSeconds(end.at)}</b>, after <b>{duration(lived)}</b>
        </span>
      )}
      {end?.lastMemory != null && (
        <span>
          last memory <b>{bytes(end.lastMemory)}</b>
          {end.lastMemoryShare !== null && `, ${share(end.lastMemoryShare)} of its limit`}
        </span>
      )}
      {end && (
        <span>
          <b>{counted(end.lostResults, "result")}</b> lost with it
        </span>
      )}
    </div>
  );
}

function WorkerLanes({ worker, cluster }: { worker: DetailedWorker; cluster: ShownCluster }) {
  const series = worker.series ?? [];
  if (series.every(({ points }) => points.length === 0)) {
    return (
      <Empty title="The worker reported no measurements">It may have ended before its first report.</Empty>
    );
  }
  const from = Date.parse(worker.startedAt) / 1000;
  const to = Date.parse(worker.end?.at ?? worker.endedAt ?? cluster.lastAt) / 1000;
  const extent = { from, to: Math.max(to, from + 1) };
  return (
    <div className={styles.lanes}>
      <Lanes
        label={`Worker ${worker.name} over time.`}
        extent={extent}
        shown={extent}
        lanes={workerLanes(series, worker.memoryLimit)}
        selection={null}
        onSelect={() => {}}
      />
    </div>
  );
}

function workerLanes(series: Parameters<typeof columns>[0], limit: number | null): PlotLane[] {
  const read = columns(series);
  const memory = read.extreme("MEMORY_PROCESS", "max");
  const cpu = read.value("CPU");
  const base = { kind: "plot", times: read.times, stepSeconds: read.stepSeconds } as const;
  return [
    {
      ...base,
      id: "memory",
      title: "Memory",
      note: "of the process",
      height: 72,
      main: "memory",
      max: roundMaxBytes(Math.max(limit ?? 0, largest(memory) ?? 0)),
      format: bytes,
      layers: [{ id: "memory", label: "process", colour: "--mem-managed", values: memory, draw: "area" }],
      ...(limit === null ? {} : { limit: { value: limit, label: "limit" } }),
    },
    {
      ...base,
      id: "cpu",
      title: "CPU",
      note: "cores",
      height: 40,
      main: "cpu",
      max: roundMax(largest(cpu) ?? 1),
      format: threeDigits,
      layers: [{ id: "cpu", label: "cores", colour: "--act-cpu", values: cpu, draw: "area" }],
    },
  ];
}

function Keys({ worker: { end } }: { worker: DetailedWorker }) {
  if (!end || end.processing === 0) return null;
  const cut = end.processing - end.processingKeys.length;
  return (
    <>
      <h4 className="h3">{counted(end.processing, "task")} it worked on</h4>
      <ul className={styles.keys}>
        {end.processingKeys.map((key) => (
          <li key={key}>
            <code>{key}</code>
          </li>
        ))}
      </ul>
      {cut > 0 && <p className="faint small">and {count(cut)} more</p>}
    </>
  );
}

const LOGS_BEFORE_MS = 120_000;
const LOGS_AFTER_MS = 10_000;

interface LogProps {
  worker: Worker;
  cluster: ShownCluster;
}

function Log({ worker, cluster }: LogProps) {
  const end = worker.end ? Date.parse(worker.end.at) : null;
  const query = useAsk(WorkerLastLogsDocument, {
    daskId: worker.daskId,
    cluster: cluster.id,
    logsAt: end
      ? {
          from: new Date(end - LOGS_BEFORE_MS).toISOString(),
          to: new Date(end + LOGS_AFTER_MS).toISOString(),
        }
      : null,
  });
  return (
    <Loaded name="The worker's last log lines" query={query}>
      {({ cluster: logged }) => <Lines logs={logged?.logs} worker={worker} cluster={cluster} />}
    </Loaded>
  );
}

interface LinesProps extends LogProps {
  logs: NonNullable<WorkerLastLogsQuery["cluster"]>["logs"] | undefined;
}

function Lines({ logs, worker, cluster }: LinesProps) {
  const account = useAccount();
  if (!logs || logs.nodes.length === 0) {
    return <p className="faint small">No log line of this worker and its nanny at that time.</p>;
  }
  const { nodes, totalCount } = logs;
  return (
    <>
      <h4 className="h3">
        Its last log lines{" "}
        <span className="faint small">
          {nodes.length < totalCount && `${nodes.length} of ${count(totalCount)}`}
        </span>{" "}
        <Link
          className="link small"
          to="/$account/clusters/$number/$tab"
          params={{ account, number: String(cluster.number), tab: "logs" }}
          search={{ worker: worker.daskId }}
          resetScroll={false}
        >
          All its lines
        </Link>
      </h4>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard */}
      <section className={styles.log} tabIndex={0} aria-label="Last log lines">
        {nodes.map(({ at, level, source, message, repeated }) => (
          <div key={`${at} ${source} ${message}`} data-level={level}>
            <span className="faint">{clockSeconds(at)}</span> {level} {message}
            {repeated > 1 && <span className="faint"> {count(repeated)} times</span>}
          </div>
        ))}
      </section>
    </>
  );
}
