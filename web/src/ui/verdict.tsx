import type { ReactNode } from "react";

export type VerdictKind = "GOOD" | "NOTICE" | "BAD" | "UNKNOWN" | "FACT";

const line = { fill: "none", strokeWidth: 1.7, strokeLinecap: "round", strokeLinejoin: "round" } as const;

const SHAPES: Record<VerdictKind, ReactNode> = {
  GOOD: (
    <>
      <circle cx="8" cy="8" r="7" fill="var(--good)" />
      <path d="M4.8 8.3l2.2 2.2 4.2-4.8" stroke="var(--bg-panel)" {...line} />
    </>
  ),
  NOTICE: (
    <>
      <path d="M8 1.4 15.2 14H.8z" fill="var(--notice)" />
      <path d="M8 6v3.8M8 11.9v.1" stroke="var(--bg-panel)" {...line} />
    </>
  ),
  BAD: (
    <>
      <path d="M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1z" fill="var(--bad)" />
      <path d="M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8" stroke="var(--bg-panel)" {...line} />
    </>
  ),
  UNKNOWN: (
    <>
      <circle
        cx="8"
        cy="8"
        r="6.4"
        fill="none"
        stroke="var(--text-3)"
        strokeWidth="1.4"
        strokeDasharray="2.2 2"
      />
      <path
        d="M6.3 6.4c0-2.2 3.4-2.2 3.4 0 0 1.3-1.7 1.3-1.7 2.7M8 11.3v.1"
        stroke="var(--text-3)"
        {...line}
        strokeWidth={1.4}
      />
    </>
  ),
  FACT: (
    <>
      <circle cx="8" cy="8" r="6.4" fill="none" stroke="var(--text-3)" strokeWidth="1.4" />
      <path d="M8 7.4v3.6M8 5v.1" stroke="var(--text-3)" {...line} />
    </>
  ),
};

const NAMES: Record<VerdictKind, string> = {
  GOOD: "good",
  NOTICE: "worth a look",
  BAD: "wrong",
  UNKNOWN: "unknown",
  FACT: "a fact",
};

/** The rating of an answer: a shape of its own for each. */
export function VerdictMark({ verdict, size = 16 }: { verdict: VerdictKind; size?: number }) {
  return (
    <svg viewBox="0 0 16 16" width={size} height={size} role="img" aria-label={NAMES[verdict]}>
      {SHAPES[verdict]}
    </svg>
  );
}
