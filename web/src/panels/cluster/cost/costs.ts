import { ACTIVITIES, type Activity } from "@/charts/colour.ts";
import type { ClusterCostQuery, CostBasis } from "@/data/gql/graphql.ts";

type Cluster = NonNullable<ClusterCostQuery["cluster"]>;
export type Cost = Cluster["usage"]["costs"][number];
export type Rate = Cluster["account"]["costRates"][number];

interface Priced {
  currency: string;
  basis: CostBasis;
}

/** Returns the name of a cost in the address. Amounts in other currencies or on another basis are never added. */
export function costKey({ currency, basis }: Priced): string {
  return basis === "ESTIMATED" ? `${currency}-estimated` : currency;
}

/** Returns the amount in the same currency and on the same basis. Null if there is none. */
export function amountOf(costs: readonly (Priced & { amount: number })[], like: Priced): number | null {
  const key = costKey(like);
  return costs.find((cost) => costKey(cost) === key)?.amount ?? null;
}

export interface CauseRow {
  cause: Activity;
  amount: number;
  /** Null if several costs share the thread time. */
  seconds: number | null;
}

/** Returns the parts of the cost, in the order of the activities. They add up to the amount. */
export function causeRows(usage: Pick<Cluster["usage"], "causes" | "costs">, cost: Cost): CauseRow[] {
  return ACTIVITIES.flatMap((cause) => {
    const amount = cost.causes.find((part) => part.cause === cause)?.amount ?? 0;
    const seconds = usage.causes.find((part) => part.cause === cause)?.seconds ?? 0;
    if (amount === 0 && (seconds === 0 || usage.costs.length > 1)) return [];
    return [{ cause, amount, seconds: usage.costs.length > 1 ? null : seconds }];
  });
}

export interface FunctionRow {
  /** Null for the time that belongs to no function. */
  prefix: string | null;
  /** Null for the row without a function. */
  seconds: number | null;
  amount: number;
}

/** The part of an amount below which a difference is the rounding of the sum. */
const ROUNDING = 1e-9;

/** Returns the functions, the most expensive one first, and the rest. They add up to the amount. */
export function functionRows(functions: Cluster["functions"], cost: Cost): FunctionRow[] {
  const rows: FunctionRow[] = functions.flatMap(({ prefix, computeSeconds, costs }) => {
    const amount = amountOf(costs, cost);
    return amount === null ? [] : [{ prefix, seconds: computeSeconds, amount }];
  });
  rows.sort((a, b) => b.amount - a.amount);
  const rest = cost.amount - rows.reduce((sum, { amount }) => sum + amount, 0);
  if (Math.abs(rest) > cost.amount * ROUNDING) rows.push({ prefix: null, seconds: null, amount: rest });
  return rows;
}

export interface HourRow {
  start: string;
  threadSeconds: number;
  computeSeconds: number;
  amount: number;
}

/** Returns the hours in which the cost arose. */
export function hourRows(hours: NonNullable<Cluster["usageHours"]>, cost: Cost): HourRow[] {
  return hours.flatMap(({ start, usage: { threadSeconds, computeSeconds, costs } }) => {
    const amount = amountOf(costs, cost);
    return amount === null ? [] : [{ start, threadSeconds, computeSeconds, amount }];
  });
}

/** Returns the rates that were valid on a day of the cluster's life. The rates are in the order of their days. */
export function ratesOf(rates: readonly Rate[], startedAt: string, lastAt: string): Rate[] {
  const first = startedAt.slice(0, 10);
  const last = lastAt.slice(0, 10);
  return rates.filter(({ validFrom }, index) => {
    const next = rates[index + 1]?.validFrom;
    return validFrom <= last && (next === undefined || next > first);
  });
}

/** Returns a price with as many decimals as it has, at most six: `$0.0045`. */
export function price(amount: number, currency: string): string {
  return new Intl.NumberFormat("en", {
    style: "currency",
    currency,
    currencyDisplay: "narrowSymbol",
    maximumFractionDigits: 6,
  }).format(amount);
}

/** Returns the prices of a rate that are not 0. */
export function rateText({ currency, perThreadHour, perGibHour, perWorkerHour }: Rate): string {
  const parts = [
    [perThreadHour, "thread-hour"],
    [perGibHour, "GiB-hour of memory limits"],
    [perWorkerHour, "worker-hour"],
  ] as const;
  const shown = parts.filter(([amount]) => amount > 0);
  if (shown.length === 0) return "nothing, by a rate of 0";
  return shown.map(([amount, unit]) => `${price(amount, currency)} per ${unit}`).join(", ");
}

/**
 * Returns the format of the amounts of a cost: with as many decimals as give the whole three digits, because
 * the cost of a short run is less than a cent. An amount that is not 0 never reads as 0.
 */
export function amountFormat({ amount: whole, currency }: Pick<Cost, "amount" | "currency">) {
  const usual = new Intl.NumberFormat("en", { style: "currency", currency }).resolvedOptions();
  const digits = Math.max(
    usual.maximumFractionDigits ?? 2,
    whole > 0 ? 2 - Math.floor(Math.log10(whole)) : 0,
  );
  const shown = Math.min(6, whole >= 1 ? (usual.maximumFractionDigits ?? 2) : digits);
  const format = new Intl.NumberFormat("en", {
    style: "currency",
    currency,
    currencyDisplay: "narrowSymbol",
    minimumFractionDigits: shown,
    maximumFractionDigits: shown,
  });
  const smallest = 10 ** -shown;
  return (amount: number) =>
    amount > 0 && amount < smallest / 2 ? `<\u00a0${format.format(smallest)}` : format.format(amount);
}
