import type { OverviewNowQuery } from "@/data/gql/graphql.ts";
import { type Amount, type CostText, costText, money } from "@/format/money.ts";
import { share, signed } from "@/format/number.ts";

export type Live = OverviewNowQuery["viewer"]["account"]["live"];
export type LiveCluster = Live["nodes"][number];

/** The time without work after which the back-test stops clusters. */
export const IDLE_HOUR_SECONDS = 3600;

export interface LiveFigures {
  running: number;
  starting: number;
  idle: number;
  /** The threads of the running clusters. Null if one of them has not said. */
  threads: number | null;
  /** The users of the running clusters. */
  users: number;
  /** The cluster that has been idle for the longest time. */
  longest: LiveCluster | null;
  /** False if not all live clusters were read. */
  isComplete: boolean;
}

/** Returns the figures of the live clusters. */
export function liveFigures({ nodes, totalCount }: Live): LiveFigures {
  const running = nodes.filter(({ state }) => state === "RUNNING");
  const idle = nodes.filter(({ state }) => state === "IDLE");
  return {
    running: running.length,
    starting: nodes.filter(({ state }) => state === "STARTING").length,
    idle: idle.length,
    threads: threadSum(running),
    users: new Set(running.flatMap(({ user }) => (user ? [user.id] : []))).size,
    longest: idle.toSorted((a, b) => b.idleSeconds - a.idleSeconds)[0] ?? null,
    isComplete: nodes.length >= totalCount,
  };
}

/** Returns the threads of the clusters. Null if one of them has not said. */
export function threadSum(clusters: readonly Pick<LiveCluster, "now">[]): number | null {
  let sum = 0;
  for (const { now } of clusters) {
    if (!now) return null;
    sum += now.threads;
  }
  return sum;
}

/** Returns the price of an hour of the clusters. Null without any, and if that of one of them is unknown. */
export function hourly(clusters: readonly Pick<LiveCluster, "costPerHour">[]): CostText | null {
  const prices = clusters.flatMap(({ costPerHour }) => costPerHour ?? []);
  return prices.length < clusters.length ? null : costText(prices);
}

export function hourlyText({ text, isEstimated }: CostText): string {
  return `${text}${isEstimated ? " est." : ""} an hour`;
}

/** Returns the difference of two costs in one currency: `$336 or 10 % more`. Null if they cannot be compared. */
export function costChange(now: readonly Amount[], before: readonly Amount[]): string | null {
  const currencies = new Set([...now, ...before].map(({ currency }) => currency));
  const [currency] = currencies;
  if (currencies.size !== 1 || currency === undefined) return null;
  const sum = (costs: readonly Amount[]) => costs.reduce((total, { amount }) => total + amount, 0);
  const change = sum(now) - sum(before);
  const size = money(Math.abs(change), currency);
  const part = sum(before) > 0 ? ` or ${share(Math.abs(change) / sum(before))}` : "";
  return `${size}${part} ${change < 0 ? "less" : "more"}`;
}

/** Returns the change against the period before in percent: `+10 %`. Null if there was nothing before. */
export function relativeChange(now: number, before: number): string | null {
  if (before <= 0) return null;
  return signed(now / before - 1, share);
}

const RANK = { IDLE: 0, RUNNING: 1, STARTING: 2, CLOSING: 3, CLOSED: 4, LOST: 4 } as const;

/** Returns the live clusters with the idle ones first, the longest idle before the others. */
export function idleFirst(clusters: readonly LiveCluster[]): LiveCluster[] {
  return clusters.toSorted((a, b) => RANK[a.state] - RANK[b.state] || b.idleSeconds - a.idleSeconds);
}
