import { describe, expect, it } from "vitest";
import type { Answered } from "@/data/ask.ts";
import type { ClusterEndedWorkersQuery } from "@/data/gql/graphql.ts";
import {
  deathsOf,
  type EndedWorker,
  type EndedWorkers,
  loadEndedWorkers,
  NONE_ENDED,
} from "./ended_workers.ts";
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

/** A server with the workers of these numbers, in this order, that counts what it is asked. */
class Pages {
  asked = 0;
  constructor(private readonly numbers: readonly number[]) {}

  load(known?: EndedWorkers): Promise<EndedWorkers> {
    return loadEndedWorkers(known, this.page).then(({ data }) => data);
  }

  private readonly page = async (before: string | null): Promise<Answered<ClusterEndedWorkersQuery>> => {
    this.asked += 1;
    const end = before === null ? this.numbers.length : Number(before);
    const start = Math.max(0, end - 100);
    const workers = {
      totalCount: this.numbers.length,
      pageInfo: { hasPreviousPage: start > 0, startCursor: String(start) },
      nodes: this.numbers.slice(start, end).map(worker),
    };
    return { data: { cluster: { id: "cluster", workers } }, errors: [] };
  };
}

const upTo = (total: number) => Array.from({ length: total }, (_, number) => number);

describe("the workers that ended", () => {
  it("have a mark for each death, also beyond the first page", async () => {
    const ended = await new Pages(upTo(150)).load();
    const marks = deathMarks(ended).sort((a, b) => a.at - b.at);
    expect(marks.map(({ id, at }) => [id, at - start / 1000])).toEqual([
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

  it("are asked for again only as far back as new ones may be", async () => {
    const known = await new Pages(upTo(1000)).load();
    const same = new Pages(upTo(1000));
    expect(await same.load(known)).toBe(known);
    expect(same.asked).toBe(1);

    const later = new Pages(upTo(1003));
    expect((await later.load(known)).workers.length).toBe(1003);
    expect(later.asked).toBe(1);

    // This one joined long ago, and has left only now.
    const early = new Pages([...upTo(750), 5000, ...upTo(1000).slice(750)]);
    const ended = await early.load(known);
    expect(ended.workers.map(({ id }) => id)).toContain("worker-5000");
    expect([ended.workers.length, ended.totalCount, early.asked]).toEqual([1001, 1001, 3]);
  });

  it("are all asked for again if some were deleted", async () => {
    const known = await new Pages(upTo(300)).load();
    const fewer = new Pages(upTo(250));
    expect((await fewer.load(known)).workers.length).toBe(250);
    expect(fewer.asked).toBe(3);
  });

  it("stay as they are known if their field failed", async () => {
    const known = await new Pages(upTo(3)).load();
    const errors = [{ message: "no", path: [], code: null, requestId: null }];
    expect(await loadEndedWorkers(known, async () => ({ data: { cluster: null }, errors }))).toEqual({
      data: known,
      errors,
    });
  });

  it("say how many are not known while some are not loaded", async () => {
    const ended = await new Pages(upTo(1500)).load();
    expect(deathsOf(ended)).toEqual({ died: 20, isLeast: true });
    expect(marksNote(null, ended)).toBe("20\u00a0deaths among 1,000 of 1,500 workers that ended");
  });

  it("are none before the first page has arrived", () => {
    expect(deathMarks(NONE_ENDED)).toEqual([]);
    expect(marksNote(null, NONE_ENDED)).toBe("");
  });
});
