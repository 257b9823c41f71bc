import { describe, expect, it } from "vitest";
import type { ClusterEndedWorkersQuery } from "@/data/gql/graphql.ts";
import { deathsOf, type EndedWorker, endedWorkers, NONE_ENDED } from "./ended_workers.ts";
import { deathMarks, marksNote } from "./marks.ts";

const start = Date.UTC(2026, 10, 24);

function worker(number: number): EndedWorker {
  const isLost = number % 50 === 49;
  return {
    id: `worker-${number}`,
    name: String(number),
    end: {
      at: new Date(start + number * 1000).toISOString(),
      kind: isLost ? "LOST" : "RETIRED",
      lostResults: 0,
      lastMemory: null,
      lastMemoryShare: null,
    },
  };
}

/** Returns the pages of that many workers, of which each fiftieth disappeared. */
function pages(total: number, loaded = total): ClusterEndedWorkersQuery[] {
  const all = Array.from({ length: loaded }, (_, number) => worker(number));
  return Array.from({ length: Math.ceil(loaded / 100) }, (_, page) => ({
    cluster: {
      id: "cluster",
      workers: {
        totalCount: total,
        pageInfo: { hasNextPage: (page + 1) * 100 < total, endCursor: String(page) },
        nodes: all.slice(page * 100, (page + 1) * 100),
      },
    },
  }));
}

describe("the workers that ended", () => {
  it("have a mark for each death, also behind the first page", () => {
    const ended = endedWorkers(pages(150));
    expect(deathMarks(ended).map(({ id, at }) => [id, at - start / 1000])).toEqual([
      ["worker-49", 49],
      ["worker-99", 99],
      ["worker-149", 149],
    ]);
    expect(marksNote(null, ended)).toBe("3\u00a0deaths");
    expect(deathsOf(ended)).toEqual({ died: 3, isLeast: false });
  });

  it("died with a last known memory and with results", () => {
    const [dead] = [worker(49)];
    const details = [
      { lastMemory: 15.3 * 1024 ** 3, lastMemoryShare: 15.3 / 16, lostResults: 13 },
      { lastMemory: 1024 ** 2, lostResults: 1 },
      {},
    ].map((facts) => {
      const workers = [{ ...dead, end: { ...dead?.end, ...facts } } as EndedWorker];
      return deathMarks({ workers, totalCount: 1 })[0]?.detail?.replaceAll("\u00a0", " ");
    });
    expect(details).toEqual([
      "15.3 of 16 GiB, 96 % of its limit. 13 results were lost with it.",
      "It used 1 MiB. 1 result was lost with it.",
      "",
    ]);
  });

  it("say how many are not known while some are not loaded", () => {
    const ended = endedWorkers(pages(1500, 1000));
    expect(deathsOf(ended)).toEqual({ died: 20, isLeast: true });
    expect(marksNote(null, ended)).toBe("20\u00a0deaths among 1,000 of 1,500 workers that ended");
  });

  it("are none before the first page has arrived", () => {
    expect(deathMarks(NONE_ENDED)).toEqual([]);
    expect(marksNote(null, NONE_ENDED)).toBe("");
  });
});
