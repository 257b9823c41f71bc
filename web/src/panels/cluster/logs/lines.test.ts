import { describe, expect, it } from "vitest";
import {
  beginning,
  coversDays,
  following,
  isFiltered,
  type Line,
  linesOf,
  lineTime,
  logFilter,
  nextCursor,
  pageVariables,
  processName,
} from "./lines.ts";

const WORKER = "3f2b8c1e-5d0a-4a53-9a43-2f7c2b1f6f10";

function page(numbers: number[], more: { before?: boolean; after?: boolean } = {}) {
  const edges = numbers.map((number) => ({
    cursor: `c${number}`,
    node: {
      at: `2026-11-24T02:00:0${number}Z`,
      source: "WORKER" as const,
      level: "INFO",
      logger: "distributed.worker",
      message: `line ${number}`,
      repeated: 1,
      worker: "tcp://10.0.0.7:4021",
      workerId: WORKER,
      workerProcess: { id: "w", name: "w-17" },
    },
  }));
  return {
    pageInfo: {
      hasNextPage: more.after ?? false,
      endCursor: edges.at(-1)?.cursor ?? null,
      hasPreviousPage: more.before ?? false,
      startCursor: edges[0]?.cursor ?? null,
    },
    edges,
  };
}

describe("the filter of the log", () => {
  it("is read from the address, without what the server would refuse", () => {
    const search = {
      level: "warning",
      source: "nanny",
      worker: WORKER,
      q: "memory",
      order: "oldest" as const,
    };
    const from = "2026-11-24T02:10:00Z";
    const to = "2026-11-24T02:20:00Z";
    expect(pageVariables("cluster", logFilter({ ...search, from, to }))).toEqual({
      id: "cluster",
      levels: ["WARNING", "ERROR", "CRITICAL"],
      sources: ["NANNY"],
      worker: WORKER,
      match: "memory",
      at: { from, to },
      first: 100,
    });
    expect(pageVariables("cluster", logFilter({ level: "loud", source: "moon", worker: "w-17" }))).toEqual({
      id: "cluster",
      levels: null,
      sources: null,
      worker: null,
      match: null,
      at: null,
      last: 100,
    });
  });

  it("leaves lines out unless it has a text alone", () => {
    expect(isFiltered(logFilter({ q: "memory" }))).toBe(false);
    expect(isFiltered(logFilter({ level: "error" }))).toBe(true);
    expect(isFiltered(logFilter({ worker: WORKER }))).toBe(true);
  });
});

describe("the lines", () => {
  it("are in the order of reading, over all pages", () => {
    const cursors = (lines: Line[]) => lines.map(({ cursor }) => cursor).join(" ");
    // From the end, the second page has older lines than the first one.
    expect(cursors(linesOf([page([5, 6]), page([3, 4])], false))).toBe("c6 c5 c4 c3");
    expect(cursors(linesOf([page([1, 2]), page([3, 4])], true))).toBe("c1 c2 c3 c4");
    expect(linesOf([undefined], true)).toEqual([]);
  });

  it("go on before the oldest or behind the newest one", () => {
    const both = page([3, 4], { before: true, after: true });
    expect([nextCursor(both, false), nextCursor(both, true)]).toEqual(["c3", "c4"]);
    expect([nextCursor(page([3]), false), nextCursor(page([3]), true)]).toEqual([null, null]);
    // A search that found nothing so far goes on from the place where it stopped.
    const searched = page([], { before: true });
    searched.pageInfo.startCursor = "stopped";
    expect(nextCursor(searched, false)).toBe("stopped");
  });

  it("tell their time and their process", () => {
    expect(lineTime("2026-11-24T02:37:44.0071Z", false)).toBe("02:37:44.007");
    expect(lineTime("2026-11-24T02:37:44Z", true)).toMatch(/^Tue 24 Nov.*, 02:37:44\.000$/);
    expect(coversDays("2026-11-23T23:59:59Z", "2026-11-24T00:00:01Z")).toBe(true);
    expect(coversDays("2026-11-24T00:00:01Z", "2026-11-24T23:59:59Z")).toBe(false);
    const [line] = linesOf([page([1])], true) as [Line];
    expect(processName(line)).toBe("w-17");
    expect(processName({ ...line, source: "NANNY" })).toBe("nanny of w-17");
    expect(processName({ ...line, workerProcess: null })).toBe("tcp://10.0.0.7:4021");
    expect(processName({ ...line, workerProcess: null, worker: null })).toBe("worker unknown");
    expect(processName({ ...line, source: "SCHEDULER", workerProcess: null, worker: null })).toBe(
      "scheduler",
    );
  });

  it("are cut only if that saves room", () => {
    const rows = (size: number) => Array.from({ length: size }, (_, row) => `row ${row}`).join("\n");
    expect(beginning(rows(12))).toEqual({ shown: rows(12), hidden: 0 });
    expect(beginning(rows(13))).toEqual({ shown: rows(10), hidden: 3 });
  });
});

describe("following", () => {
  const facts = {
    isLive: true,
    filter: logFilter({}),
    isWanted: true,
    isAtNewest: true,
    isConnected: true,
  };
  it("states the reason why it stops", () => {
    expect(following(facts)).toBe("on");
    expect(following({ ...facts, isConnected: false })).toBe("interrupted");
    expect(following({ ...facts, isAtNewest: false })).toBe("reading");
    expect(following({ ...facts, isWanted: false, isAtNewest: false })).toBe("paused");
    expect(following({ ...facts, filter: logFilter({ order: "oldest" as const }) })).toBe("oldest");
    const part = logFilter({ from: "2026-11-24T02:10:00Z", to: "2026-11-24T02:20:00Z" });
    expect(following({ ...facts, filter: part })).toBe("part");
    expect(following({ ...facts, isLive: false })).toBe("ended");
  });
});
