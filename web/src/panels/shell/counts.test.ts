import { describe, expect, it } from "vitest";
import { countsOf } from "./counts.ts";

const now = Date.parse("2026-11-28T12:00:00Z");
const group = (status: "OPEN" | "REGRESSED", firstSeenAt: string) => ({
  id: firstSeenAt,
  status,
  firstSeenAt,
});
const account = (live: number, idle: number, open: ReturnType<typeof group>[], totalCount = open.length) => ({
  id: "1",
  live: { totalCount: live },
  idle: { totalCount: idle },
  open: { totalCount, nodes: open },
});

describe("the numbers of the navigation", () => {
  it("are the live and idle clusters, and the groups of errors that began within a day", () => {
    const open = [
      group("OPEN", "2026-11-28T11:00:00Z"),
      group("OPEN", "2026-11-27T12:00:01Z"),
      group("OPEN", "2026-11-27T11:59:59Z"),
    ];
    expect(countsOf(account(8, 3, open), now)).toEqual({
      "/$account/clusters": [
        { text: "8 live", tone: "plain" },
        { text: "3 idle", tone: "notice" },
      ],
      "/$account/errors": [{ text: "2 new", tone: "bad" }],
    });
    expect(countsOf(account(1, 0, open, 101), now)).toEqual({
      "/$account/clusters": [{ text: "1 live", tone: "plain" }],
      "/$account/errors": [{ text: "2+ new", tone: "bad" }],
    });
  });

  it("are absent if nobody must act, or if they are unknown", () => {
    expect(countsOf(account(0, 0, [group("OPEN", "2026-11-01T00:00:00Z")]), now)).toEqual({});
    expect(countsOf({ ...account(0, 0, []), open: null }, now)).toEqual({});
  });
});
