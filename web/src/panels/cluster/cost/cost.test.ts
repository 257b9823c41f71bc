import { describe, expect, it } from "vitest";
import {
  amountFormat,
  amountOf,
  type Cost,
  causeRows,
  costKey,
  functionRows,
  hourRows,
  type Rate,
  ratesOf,
  rateText,
} from "./costs.ts";

const cost: Cost = {
  amount: 4,
  currency: "USD",
  basis: "RATE_CARD",
  causes: [
    { cause: "IDLE", amount: 1 },
    { cause: "CPU", amount: 2.5 },
    { cause: "UNOBSERVED", amount: 0.5 },
    { cause: "SPILL", amount: 0 },
  ],
};
const estimated: Cost = {
  ...cost,
  amount: 0.25,
  basis: "ESTIMATED",
  causes: [{ cause: "IDLE", amount: 0.25 }],
};

const priced = (amount: number) => ({ amount, currency: "USD", basis: "RATE_CARD" as const });

describe("the cost of a cluster", () => {
  it("keeps estimates apart from amounts by the account's own rates", () => {
    expect([cost, estimated].map(costKey)).toEqual(["USD", "USD-estimated"]);
    expect(amountOf([estimated, priced(3)], cost)).toBe(3);
    expect(amountOf([estimated], cost)).toBeNull();
  });

  it("splits by cause, in the order of the activities, and adds up", () => {
    const causes = [
      { cause: "CPU" as const, seconds: 100 },
      { cause: "IDLE" as const, seconds: 40 },
      { cause: "UNOBSERVED" as const, seconds: 20 },
      { cause: "SPILL" as const, seconds: 3 },
    ];
    const rows = causeRows({ causes, costs: [cost] }, cost);
    expect(rows).toEqual([
      { cause: "CPU", amount: 2.5, seconds: 100 },
      { cause: "SPILL", amount: 0, seconds: 3 },
      { cause: "IDLE", amount: 1, seconds: 40 },
      { cause: "UNOBSERVED", amount: 0.5, seconds: 20 },
    ]);
    expect(rows.reduce((sum, { amount }) => sum + amount, 0)).toBe(cost.amount);
    // The seconds of two costs are not known apart.
    expect(causeRows({ causes, costs: [cost, estimated] }, estimated)).toEqual([
      { cause: "IDLE", amount: 0.25, seconds: null },
    ]);
  });

  it("splits by function, and says what belongs to none", () => {
    const all = [
      { prefix: "load", computeSeconds: 60, costs: [priced(0.5)] },
      {
        prefix: "fit",
        computeSeconds: 50,
        costs: [priced(1.5), { ...priced(9), basis: "ESTIMATED" as const }],
      },
      { prefix: "earlier", computeSeconds: 5, costs: [{ ...priced(7), currency: "EUR" }] },
    ];
    expect(functionRows(all, cost)).toEqual([
      { prefix: "fit", seconds: 50, amount: 1.5 },
      { prefix: "load", seconds: 60, amount: 0.5 },
      { prefix: null, seconds: null, amount: 2 },
    ]);
    const whole = [{ prefix: "all", computeSeconds: 1, costs: [priced(4 + 1e-12)] }];
    expect(functionRows(whole, cost)).toHaveLength(1);
  });

  it("splits by hour, without the hours of other rates", () => {
    const hour = (start: string, costs: Cost[]) => ({
      start,
      usage: { threadSeconds: 10, computeSeconds: 4, costs },
    });
    const hours = [hour("2026-11-24T02:00:00Z", [estimated]), hour("2026-11-24T03:00:00Z", [cost])];
    expect(hourRows(hours, cost)).toEqual([
      { start: "2026-11-24T03:00:00Z", threadSeconds: 10, computeSeconds: 4, amount: 4 },
    ]);
  });

  it.each([
    [3.771, 1.5, "$1.50"],
    [3.771, 0.001, "< $0.01"],
    [0.0134, 0.0134, "$0.0134"],
    [0.0134, 0.00001, "< $0.0001"],
    [0.0134, 0, "$0.0000"],
    [0.000000004, 0.000000004, "< $0.000001"],
    [1234.5, 1234.5, "$1,234.50"],
  ])("of %d writes %d in three digits of the whole", (amount, part, text) => {
    expect(amountFormat({ amount, currency: "USD" })(part).replaceAll("\u00a0", " ")).toBe(text);
  });

  it("finds the rates of the cluster's days", () => {
    const rate = (validFrom: string): Rate => ({
      validFrom,
      currency: "USD",
      perThreadHour: 0.048,
      perGibHour: 0.0045,
      perWorkerHour: 0,
    });
    const rates = ["2026-01-01", "2026-11-01", "2026-11-25", "2026-12-01"].map(rate);
    const days = (from: string, to: string) => ratesOf(rates, from, to).map(({ validFrom }) => validFrom);
    expect(days("2026-11-24T23:00:00Z", "2026-11-25T01:00:00Z")).toEqual(["2026-11-01", "2026-11-25"]);
    expect(days("2026-11-25T00:00:00Z", "2026-11-25T01:00:00Z")).toEqual(["2026-11-25"]);
    expect(days("2025-11-25T00:00:00Z", "2025-11-25T01:00:00Z")).toEqual([]);
    expect(days("2027-11-25T00:00:00Z", "2027-11-25T01:00:00Z")).toEqual(["2026-12-01"]);
    expect(rateText(rate("2026-01-01"))).toBe(
      "$0.048 per thread-hour, $0.0045 per GiB-hour of memory limits",
    );
    expect(rateText({ ...rate("2026-01-01"), perThreadHour: 0, perGibHour: 0 })).toBe(
      "nothing, by a rate of 0",
    );
  });
});
