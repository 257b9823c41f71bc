import { Link } from "@tanstack/react-router";
import { Lanes } from "@/charts/lanes/lanes.tsx";
import { largest } from "@/charts/lanes/prepare.ts";
import { roundMax, roundMaxBytes } from "@/charts/lanes/scale.ts";
import type { PlotLane } from "@/charts/lanes/types.ts";
import { useAccount } from "@/data/account.ts";
import { WorkerPostMortemDocument, type WorkerPostMortemQuery } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { bytes } from "@/format/bytes.ts";
import { duration } from "@/format/duration.ts";
import { count, counted, share, threeDigits } from "@/format/number.ts";
import { clockSeconds } from "@/format/time.ts";
import { columns } from "@/panels/cluster/timeline/lane_kinds.ts";
import type { ShownCluster } from "@/routes/cluster/tabs.ts";
import { IconButton } from "@/ui/button.tsx";
import { Empty, Loaded } from "@/ui/panel.tsx";
import { END_NAMES, type Worker } from "./ends.ts";
import styles from "./workers.module.css";

interface PostMortemProps {
  worker: Worker;
  cluster: ShownCluster;
  onClose(): void;
}

const LOGS_BEFORE_MS = 120_000;
const LOGS_AFTER_MS = 10_000;

/** The last moments of a worker: its memory, its tasks and its log. */
export function PostMortem({ worker, cluster, onClose }: PostMortemProps) {
  const end = worker.end ? Date.parse(worker.end.at) : null;
  const query = useAsk(WorkerPostMortemDocument, {
    worker: worker.id,
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
    <section className={styles.post} aria-label={`Worker ${worker.name}`}>
      <div className={styles.postHead}>
        <h3 className="h3">
          Worker {worker.name} {worker.end ? END_NAMES[worker.end.kind] : "is alive"}
        </h3>
        <span className="grow" />
        <IconButton icon="close" label="Close" onClick={onClose} />
      </div>
      <Facts worker={worker} />
      <Loaded name="The worker's data" query={query}>
        {({ node, cluster: logged }) => (
          <>
            <WorkerLanes worker={worker} node={node} cluster={cluster} />
            <Keys node={node} />
            <Log logs={logged?.logs} worker={worker} cluster={cluster} />
          </>
        )}
      </Loaded>
    </section>
  );
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

type Node = WorkerPostMortemQuery["node"];

function workerOf(node: Node) {
  return node && "series" in node ? node : null;
}

function WorkerLanes({ worker, node, cluster }: { worker: Worker; node: Node; cluster: ShownCluster }) {
  const series = workerOf(node)?.series ?? [];
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

function Keys({ node }: { node: Node }) {
  const end = workerOf(node)?.end;
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

type Logs = NonNullable<WorkerPostMortemQuery["cluster"]>["logs"];

interface LogProps {
  logs: Logs | undefined;
  worker: Worker;
  cluster: ShownCluster;
}

function Log({ logs, worker, cluster }: LogProps) {
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
      <div className={styles.log}>
        {nodes.map(({ at, level, source, message, repeated }) => (
          <div key={`${at} ${source} ${message}`} data-level={level}>
            <span className="faint">{clockSeconds(at)}</span> {level} {message}
            {repeated > 1 && <span className="faint"> {count(repeated)} times</span>}
          </div>
        ))}
      </div>
    </>
  );
}
