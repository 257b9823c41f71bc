import { describe, expect, it } from "vitest";
import { runBeside, runsVariables } from "./runs.ts";

const startedAt = "2026-11-24T02:00:14Z";
const cluster = { id: "c", name: "daily", user: { id: "u", name: "ada" }, startedAt };
const found = (names: string[], hasNextPage = false) => ({
  pageInfo: { hasNextPage },
  nodes: names.map((name, i) => ({
    id: name === "self" ? "c" : name + i,
    number: i,
    name: name === "self" ? "daily" : name,
  })),
});

describe("the runs beside a cluster", () => {
  it("are those of the same user and name, the nearest first", () => {
    expect(runsVariables(cluster, "earlier")).toEqual({
      filter: { users: ["u"], search: "daily", startedIn: { to: startedAt } },
      direction: "DESC",
    });
    expect(runsVariables(cluster, "later")).toEqual({
      filter: { users: ["u"], search: "daily", startedIn: { from: startedAt } },
      direction: "ASC",
    });
    expect(runsVariables({ ...cluster, name: null }, "later")).toBeNull();
    expect(runsVariables({ ...cluster, user: null }, "later")).toBeNull();
  });

  it("have the whole name, and are not the cluster itself", () => {
    expect(runBeside(cluster, "later", found(["self", "daily-2", "daily", "daily"]))).toBe(2);
    expect(runBeside(cluster, "later", found(["self", "daily-2"]))).toBe("No later run of this name");
    expect(runBeside(cluster, "earlier", found(["daily-2"], true))).toBe("No earlier run among the next 1");
  });
});
