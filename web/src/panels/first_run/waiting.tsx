import { useEffect, useState } from "react";
import { useLiveState } from "@/live/use_live.ts";
import { Button } from "@/ui/button.tsx";
import styles from "./first_run.module.css";

const HELP_AFTER_MS = 60_000;

interface WaitingProps {
  /** The name of the cluster that reported. Null until then. */
  found: string | null;
  server: string;
}

/** The wait for the first report. After a minute it says what to check. */
export function Waiting({ found, server }: WaitingProps) {
  const live = useLiveState();
  const [isHelpOpen, setHelpOpen] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setHelpOpen(true), HELP_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  const isListening = live.kind === "live" || live.kind === "connecting" || live.kind === "off";
  return (
    <>
      <div className={styles.waiting} data-found={found !== null} role="status">
        <span className={styles.ring} aria-hidden="true" />
        <div>
          <p className={styles.word}>
            {found !== null
              ? `${found} reported`
              : isListening
                ? "Waiting for the first report"
                : "Not connected"}
          </p>
          <p className={styles.small}>
            {found !== null
              ? "Its page opens."
              : isListening
                ? "This page goes on by itself when a cluster reports."
                : "The connection to the server is lost. It is tried again."}
          </p>
        </div>
        <span className="grow" />
        {found === null && (
          <Button look="ghost" aria-expanded={isHelpOpen} onClick={() => setHelpOpen(!isHelpOpen)}>
            Nothing comes?
          </Button>
        )}
      </div>
      {found === null && isHelpOpen && <Checks server={server} />}
    </>
  );
}

function Checks({ server }: { server: string }) {
  return (
    <ul className={styles.checks}>
      <li>
        <code>galvo.register()</code> returns an object whose <code>problem</code> says why no report arrived.
      </li>
      <li>
        The scheduler's log has a line of the logger <code>distributed.galvo</code> for each report that was
        refused, with the reason.
      </li>
      <li>
        The scheduler reaches this server: <code>curl {server}/healthz</code> on its machine answers. The
        address in the commands is the one of your browser, which may not be the one of the scheduler.
      </li>
      <li>The token is whole, was not revoked, and belongs to this account.</li>
      <li>
        Dask's setting <code>galvo.disabled</code> is not true.
      </li>
    </ul>
  );
}
