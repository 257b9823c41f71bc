import { useEffect, useState } from "react";
import { ago, clock } from "@/format/time.ts";
import { useLiveState } from "@/live/use_live.ts";
import styles from "./shell.module.css";

const LATE_MS = 20_000;

/** The age of the live data. Nothing is shown on a page without live data. */
export function LiveDot() {
  const state = useLiveState();
  const [now, setNow] = useState(Date.now());
  const isOn = state.kind !== "off";
  useEffect(() => {
    if (!isOn) return;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isOn]);
  switch (state.kind) {
    case "off":
      return null;
    case "connecting":
      return <Dot kind="late" text="Connecting" />;
    case "paused":
      return <Dot kind="late" text="Paused" />;
    case "reconnecting":
      return <Dot kind="lost" text={`Reconnecting since ${clock(state.since)} UTC`} />;
    case "live": {
      const isLate = now - state.lastPayloadAt > LATE_MS;
      const age = ago(state.lastPayloadAt, now);
      return <Dot kind={isLate ? "late" : "live"} text={isLate ? age : `Live · ${age}`} />;
    }
  }
}

function Dot({ kind, text }: { kind: "live" | "late" | "lost"; text: string }) {
  return (
    <span className={styles.live} data-kind={kind}>
      <i />
      {text}
    </span>
  );
}
