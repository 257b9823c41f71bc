import type { ReactNode } from "react";
import type { ClusterState } from "@/data/gql/graphql.ts";
import styles from "./state.module.css";

const SHAPES: Record<ClusterState, ReactNode> = {
  STARTING: (
    <circle
      cx="6"
      cy="6"
      r="4.4"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.6"
      strokeDasharray="2.4 2"
    />
  ),
  RUNNING: <path d="M2.6 1.4v9.2L10.8 6z" fill="currentColor" />,
  IDLE: <path d="M2 1.6h2.8v8.8H2zM7.2 1.6H10v8.8H7.2z" fill="currentColor" />,
  CLOSING: (
    <path d="M6 1.2v7M2.6 5.6 6 9l3.4-3.4M1.8 11h8.4" fill="none" stroke="currentColor" strokeWidth="1.6" />
  ),
  CLOSED: (
    <rect
      x="1.8"
      y="1.8"
      width="8.4"
      height="8.4"
      rx="1"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.6"
    />
  ),
  LOST: (
    <path
      d="M10.2 4.2A4.6 4.6 0 1 0 10.4 7.6M6 3.4v3M6 8.5v.1"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.6"
      strokeLinecap="round"
    />
  ),
};

export const STATE_NAMES: Record<ClusterState, string> = {
  STARTING: "Starting",
  RUNNING: "Running",
  IDLE: "Idle",
  CLOSING: "Closing",
  CLOSED: "Closed",
  LOST: "Lost",
};

/** The state of a cluster: a shape, a word and a colour. */
export function StateLabel({ state, detail }: { state: ClusterState; detail?: string | undefined }) {
  return (
    <span className={`${styles.state} ${styles[state]}`}>
      <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" focusable="false">
        {SHAPES[state]}
      </svg>
      {STATE_NAMES[state]}
      {detail && <span className="num">{detail}</span>}
    </span>
  );
}

/** Returns true if a cluster in this state still reports. */
export function isLive(state: ClusterState): boolean {
  return state !== "CLOSED" && state !== "LOST";
}
