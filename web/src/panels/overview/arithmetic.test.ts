import { describe, expect, it } from "vitest";
import {
  costChange,
  hourly,
  hourlyText,
  idleFirst,
  type LiveCluster,
  liveFigures,
  relativeChange,
} from "./arithmetic.ts";

function cluster(
  state: LiveCluster["state"],
  threads: number | null,
  idleSeconds = 0,
  user = "ada",
): LiveCluster {
  return {
    id: `${state}-${threads}-${idleSeconds}`,
    number: 1,
    schedulerId: "Scheduler-1",
    name: null,
    state,
    desiredState: "RUNNING",
    idleSeconds,
    user: { id: user, name: user },
    now: threads === null ? null : { at: "2026-11-24T00:00:00Z", workers: 1, threads },
    costPerHour: threads === null ? null : { amount: threads / 20, currency: "USD", basis: "ESTIMATED" },
    totals: { tasksErred: 0 },
    runReasons: [],
  };
}

const nodes = [
  cluster("RUNNING", 8),
  cluster("RUNNING", 4, 0, "mara"),
  cluster("IDLE", 16, 60),
  cluster("IDLE", 2, 7200),
  cluster("STARTING", null),
];

describe("the price of an hour", () => {
  it("is the sum of all clusters, by currency, or unknown", () => {
    const known = nodes.filter(({ costPerHour }) => costPerHour !== null);
    const price = hourly(known);
    expect(price && hourlyText(price)).toBe("$1.50 est. an hour");
    expect(hourly(nodes)).toBeNull();
    expect(hourly([])).toBeNull();
    const paid = { costPerHour: { amount: 2, currency: "EUR", basis: "RATE_CARD" as const } };
    expect(hourly([paid])).toEqual({ text: "€2.00", isEstimated: false });
    expect(hourly([paid, ...known])?.text).toBe("€2.00 + $1.50");
  });
});

describe("live figures", () => {
  it("count the states and add the threads of the running clusters", () => {
    const figures = liveFigures({ totalCount: 5, nodes });
    expect(figures).toMatchObject({
      running: 2,
      starting: 1,
      idle: 2,
      threads: 12,
      users: 2,
      isComplete: true,
    });
    expect(figures.longest?.idleSeconds).toBe(7200);
    expect(liveFigures({ totalCount: 6, nodes }).isComplete).toBe(false);
  });

  it("do not take unknown threads for none", () => {
    expect(
      liveFigures({ totalCount: 2, nodes: [cluster("RUNNING", 8), cluster("RUNNING", null)] }).threads,
    ).toBeNull();
  });

  it("list the longest idle cluster first", () => {
    expect(idleFirst(nodes).map(({ state, idleSeconds }) => `${state} ${idleSeconds}`)).toEqual([
      "IDLE 7200",
      "IDLE 60",
      "RUNNING 0",
      "RUNNING 0",
      "STARTING 0",
    ]);
  });
});

describe("changes", () => {
  it("show money and percent if both amounts have the same currency", () => {
    const usd = (amount: number) => [{ amount, currency: "USD" }];
    expect(costChange(usd(110), usd(100))).toBe("$10.00 or 10\u00a0% more");
    expect(costChange(usd(50), usd(100))).toBe("$50.00 or 50\u00a0% less");
    expect(costChange(usd(5), [])).toBe("$5.00 more");
    expect(costChange(usd(5), [{ amount: 5, currency: "EUR" }])).toBeNull();
    expect(relativeChange(112, 100)).toBe("+12\u00a0%");
    expect(relativeChange(1, 0)).toBeNull();
  });
});
