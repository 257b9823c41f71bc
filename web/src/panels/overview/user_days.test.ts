import { describe, expect, it } from "vitest";
import { joinNames, mainUsers, onlyCurrency, type UsageRow, userDays } from "./user_days.ts";

function row(user: string | null, day: string, computeSeconds: number, cost = 0, currency = "USD"): UsageRow {
  return {
    day,
    user: user === null ? null : { id: `id-${user}`, name: user },
    clusters: 1,
    usage: {
      computeSeconds,
      threadSeconds: 10 * computeSeconds,
      utilization: 0.1,
      errors: 2,
      costs: [{ amount: cost, currency, basis: "ESTIMATED" }],
    },
  };
}

const days = ["2026-11-22", "2026-11-23", "2026-11-24"];
const rows = [
  row("okan", "2026-11-22", 10),
  row("ines", "2026-11-22", 40),
  row("ines", "2026-11-24", 20),
  row("mara", "2026-11-23", 5),
  row(null, "2026-11-24", 25),
  // Not among the days.
  row("ines", "2026-11-21", 1000),
];

describe("users by day", () => {
  it("has margins that are the sums of the cells", () => {
    const table = userDays(rows, days, "compute");
    expect(table.users.map(({ name, total }) => [name, total])).toEqual([
      ["ines", 60],
      ["Former members", 25],
      ["okan", 10],
      ["mara", 5],
    ]);
    expect(days.map((day) => table.byDay.get(day))).toEqual([50, 5, 45]);
    expect(table.total).toBe(100);
  });

  it("sums the smaller users in the last row, and loses nothing", () => {
    const table = userDays(rows, days, "compute", 2);
    expect(table.users.map(({ name, total }) => [name, total])).toEqual([
      ["ines", 60],
      ["3 others", 40],
    ]);
    expect(days.map((day) => table.users[1]?.byDay.get(day))).toEqual([10, 5, 25]);
    expect([table.total, table.userCount]).toEqual([100, 4]);
  });

  it("measures errors and the time of the clusters too", () => {
    expect(userDays(rows, days, "errors").total).toBe(10);
    expect(userDays(rows, days, "cluster").total).toBe(1000);
  });

  it("does not add amounts of two currencies", () => {
    expect(onlyCurrency([row("a", "2026-11-22", 1, 2)])).toBe("USD");
    expect(onlyCurrency([row("a", "2026-11-22", 1, 2), row("b", "2026-11-22", 1, 2, "EUR")])).toBeNull();
    expect(onlyCurrency([])).toBeNull();
  });
});

describe("main users", () => {
  it("are as few as have half of it", () => {
    expect(mainUsers(userDays(rows, days, "compute"))).toEqual({ names: ["ines"], share: 0.6 });
    expect(mainUsers(userDays([], days, "compute"))).toBeNull();
    expect(joinNames(["ines", "batch-bot", "priya"])).toBe("ines, batch-bot and priya");
  });
});
