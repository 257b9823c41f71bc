import { describe, expect, it } from "vitest";
import type { HeaderCluster } from "./shown.ts";
import { sizeText, softwareText } from "./size.ts";

const GIB = 1024 ** 3;

function cluster(workers: [threads: number, gib: number | null][], joined = workers.length, peak = [3, 6]) {
  const [peakWorkers, peakThreads] = peak;
  return {
    totals: { workers: joined, peakWorkers, peakThreads },
    workers: { nodes: workers.map(([threads, gib]) => ({ threads, memoryLimit: gib && gib * GIB })) },
  } as HeaderCluster;
}

const size = (...given: Parameters<typeof cluster>) => sizeText(cluster(...given)).replaceAll("\u00a0", " ");

describe("the size of a cluster", () => {
  it("is a product if all workers were alike, also those that came later", () => {
    expect(
      size([
        [2, 4],
        [2, 4],
        [2, 4],
        [2, 4],
      ]),
    ).toBe("3 workers × 2 threads, 12 GiB");
    expect(
      size([
        [2, null],
        [2, 4],
        [2, 4],
      ]),
    ).toBe("3 workers × 2 threads");
    expect(size([[1, 4]], 1, [1, 1])).toBe("1 worker × 1 thread, 4 GiB");
  });

  it("is two numbers if workers differed, if some are not known, or if the largest numbers do not fit", () => {
    expect(
      size([
        [1, 4],
        [3, 4],
        [2, 4],
      ]),
    ).toBe("3 workers with 6 threads");
    expect(
      size(
        [
          [2, 4],
          [2, 4],
          [2, 4],
        ],
        200,
      ),
    ).toBe("3 workers with 6 threads");
    expect(
      size(
        [
          [2, 4],
          [2, 4],
          [2, 4],
        ],
        3,
        [3, 4],
      ),
    ).toBe("3 workers with 4 threads");
    expect(size([], 0, [0, 0])).toBe("0 workers with 0 threads");
  });
});

describe("the software of a cluster", () => {
  it("is that of its scheduler, without what all releases have in their version", () => {
    const packages = [
      { name: "dask", version: "2026.7.0" },
      { name: "distributed", version: "2026.8.0" },
    ];
    expect(softwareText({ python: "3.11.9.final.0", packages })).toBe("Dask 2026.8.0, Python 3.11.9");
    expect(softwareText({ python: "3.15.0.candidate.1", packages: [] })).toBe("Python 3.15.0.candidate.1");
    expect(softwareText(null)).toBe("");
  });
});
