import { useEffect, useState, useSyncExternalStore } from "react";
import { subscribeToReachability, unreachableSince } from "@/data/reachability.ts";
import { clockSeconds } from "@/format/time.ts";
import styles from "./shell.module.css";

const PATIENCE_MS = 30_000;

/** Says, after 30 s without an answer, that the page shows old data. */
export function OfflineBar() {
  const since = useSyncExternalStore(subscribeToReachability, unreachableSince);
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    setLate(false);
    if (since === null) return;
    const timer = setTimeout(() => setLate(true), Math.max(0, since + PATIENCE_MS - Date.now()));
    return () => clearTimeout(timer);
  }, [since]);
  if (since === null || !isLate) return null;
  return (
    <div className={styles.offline} role="status">
      The server has not answered since {clockSeconds(since)} UTC. What you see is from before.
    </div>
  );
}
