/** An amount of one currency, by the account's rates or estimated. */
export interface Amount {
  amount: number;
  currency: string;
  basis?: "ESTIMATED" | "RATE_CARD";
}

const formats = new Map<string, Intl.NumberFormat>();

/** Returns an amount: `$3.77`. An amount that is not 0 never reads as 0. */
export function money(amount: number, currency: string): string {
  const format =
    formats.get(currency) ??
    new Intl.NumberFormat("en", { style: "currency", currency, currencyDisplay: "narrowSymbol" });
  formats.set(currency, format);
  const digits = format.resolvedOptions().maximumFractionDigits ?? 2;
  const smallest = 10 ** -digits;
  if (amount > 0 && amount < smallest / 2) return `<\u00a0${format.format(smallest)}`;
  return format.format(amount);
}

/** The cost as text: amounts of different currencies are never added. */
export interface CostText {
  text: string;
  isEstimated: boolean;
}

/** Returns the sum by currency, and whether an estimate is part of it. Null without any amount. */
export function costText(costs: readonly Amount[]): CostText | null {
  if (costs.length === 0) return null;
  const sums = new Map<string, number>();
  for (const { amount, currency } of costs) sums.set(currency, (sums.get(currency) ?? 0) + amount);
  return {
    text: [...sums].map(([currency, amount]) => money(amount, currency)).join(" + "),
    isEstimated: costs.some(({ basis }) => basis === "ESTIMATED"),
  };
}
