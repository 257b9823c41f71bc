import { useEffect, useRef, useState } from "react";
import { type ClusterFilter, LiveClustersDocument } from "@/data/gql/graphql.ts";
import { counted } from "@/format/number.ts";
import { useLive } from "@/live/use_live.ts";
import { Button } from "@/ui/button.tsx";
import styles from "./clusters.module.css";
import type { Clusters } from "./use_clusters.ts";

const SUMS_EVERY_MS = 10_000;
const ROWS_EVERY_MS = 3_000;

interface LiveRowsProps {
  filter: ClusterFilter;
  /** The position of the first page of rows in the stream. */
  after: string;
  clusters: Clusters;
}

/**
 * Keeps the rows up to date. A list of one page also takes new clusters in; a longer one says how many there
 * are, so that nothing moves under the eyes of who scrolls it.
 */
export function LiveRows({ filter, after, clusters }: LiveRowsProps) {
  const { patch, refresh, refreshSums, pageCount } = clusters;
  const [added, setAdded] = useState<ReadonlySet<string>>(new Set());
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const reload = () => {
    setAdded(new Set());
    setLeft(new Set());
    refresh();
  };
  const soon = useThrottled(reload, ROWS_EVERY_MS);
  const sumsSoon = useThrottled(refreshSums, SUMS_EVERY_MS);
  useLive(
    LiveClustersDocument,
    { filter },
    {
      enabled: true,
      after,
      cursor: (data) => data.clusters.cursor,
      onPayload: ({ clusters: { cluster, matches, gap } }) => {
        const isShown = patch(cluster);
        if (gap || (isShown ? !matches : matches)) {
          if (pageCount <= 1 || gap) soon();
          else if (isShown) setLeft((ids) => new Set(ids).add(cluster.id));
          else setAdded((ids) => new Set(ids).add(cluster.id));
        }
        sumsSoon();
      },
    },
  );
  if (added.size + left.size === 0) return null;
  const parts = [
    added.size > 0 ? counted(added.size, "new cluster") : null,
    left.size > 0 ? `${left.size} no longer ${left.size === 1 ? "passes" : "pass"} the filter` : null,
  ];
  return (
    <div className={styles.news} role="status">
      {parts.filter(Boolean).join(", ")}
      <Button size="small" onClick={reload}>
        Load again
      </Button>
    </div>
  );
}

/** Returns a function that calls `run` at most once in `everyMs`, the last call included. */
function useThrottled(run: () => void, everyMs: number): () => void {
  const latest = useRef(run);
  latest.current = run;
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const last = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  return () => {
    clearTimeout(timer.current);
    const wait = Math.max(0, last.current + everyMs - Date.now());
    timer.current = setTimeout(() => {
      last.current = Date.now();
      latest.current();
    }, wait);
  };
}
