import { Link } from "@tanstack/react-router";
import { useAccount } from "@/data/account.ts";
import { bytes } from "@/format/bytes.ts";
import { duration } from "@/format/duration.ts";
import { counted } from "@/format/number.ts";
import { clockSeconds, period } from "@/format/time.ts";
import { State } from "@/panels/clusters/row_state.tsx";
import { buttonClass } from "@/ui/button.tsx";
import { Chip } from "@/ui/chip.tsx";
import { Icon } from "@/ui/icon.tsx";
import { useIsNarrow } from "@/ui/media.ts";
import { Actions } from "./actions.tsx";
import { Answers } from "./answers.tsx";
import { useBaseline } from "./baseline.ts";
import styles from "./header.module.css";
import { type HeaderCluster, shownCluster } from "./shown.ts";
import { sizeText, softwareText } from "./size.ts";
import { useLiveCluster } from "./use_live_cluster.ts";
import { useRunKeys } from "./use_run_keys.ts";

/** The cluster's name, state, times and size, and the answers about it. */
export function Header({ cluster }: { cluster: HeaderCluster }) {
  const { name } = shownCluster(cluster);
  const { tasksErred } = cluster.totals;
  const isNarrow = useIsNarrow();
  const said = useRunKeys(cluster);
  useLiveCluster(cluster);
  return (
    <>
      <div className={styles.title}>
        <h1 className="h1">{name}</h1>
        <span className={`${styles.number} mono`}>#{cluster.number}</span>
        <State row={cluster} />
        {tasksErred > 0 && <Chip tone="bad">{counted(tasksErred, "task")} failed</Chip>}
        <span className="faint small" role="status">
          {said}
        </span>
        <span className={styles.actions}>
          <Actions cluster={cluster} />
          {!isNarrow && <CompareLink cluster={cluster} />}
        </span>
      </div>
      <Facts cluster={cluster} />
      <Answers cluster={cluster} />
      {isNarrow && <CompareLink cluster={cluster} isWide />}
    </>
  );
}

function CompareLink({ cluster, isWide = false }: { cluster: HeaderCluster; isWide?: boolean }) {
  const account = useAccount();
  const baseline = useBaseline(cluster.id);
  if (!baseline) return null;
  return (
    <Link
      to="/$account/compare"
      params={{ account }}
      search={{ a: String(baseline.number), b: String(cluster.number) }}
      className={isWide ? `${buttonClass("primary")} ${styles.wide}` : buttonClass("primary")}
    >
      <Icon name="compare" />
      Compare with last good
    </Link>
  );
}

function Facts({ cluster }: { cluster: HeaderCluster }) {
  const { lastAt } = shownCluster(cluster);
  const baseline = useBaseline(cluster.id);
  const { now } = cluster;
  const software = softwareText(cluster.environment);
  return (
    <div className={styles.meta}>
      <b>{cluster.user?.name ?? "a user who left"}</b>
      <span>
        <b>{period(cluster.startedAt, lastAt)}</b> UTC
      </span>
      <span>
        <b>{duration(cluster.durationSeconds)}</b>
        {baseline && `, ${difference(cluster.durationSeconds - baseline.durationSeconds)} the last good run`}
      </span>
      <span>
        at most <b>{sizeText(cluster)}</b>
      </span>
      {now && (
        <span>
          now <b>{counted(now.workers, "worker")}</b>
          {now.memoryLimit !== null && `, ${bytes(now.memoryUsed)} of ${bytes(now.memoryLimit)}`}
        </span>
      )}
      {software && <span>{software}</span>}
      {cluster.state === "LOST" && <span>last heard {clockSeconds(cluster.lastSeenAt)} UTC</span>}
      {cluster.closeReason && <span>{cluster.closeReason}</span>}
      {cluster.tags.map(({ key, value }) => (
        <Chip tone="tag" key={key}>
          {value ? `${key}:${value}` : key}
        </Chip>
      ))}
    </div>
  );
}

function difference(seconds: number): string {
  return `${duration(Math.abs(seconds))} ${seconds >= 0 ? "longer than" : "shorter than"}`;
}
