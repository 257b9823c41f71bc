import type { Sheet } from "@/panels/take_away/csv.ts";
import { END_NAMES, standing, type Worker } from "./ends.ts";

/** Returns the loaded workers as a table that leaves the page. */
export function workersSheet(workers: readonly Worker[]): Sheet {
  return {
    head: [
      "worker",
      "host",
      "threads",
      "memory limit, B",
      "joined",
      "left",
      "end",
      "last memory, B",
      "lost results",
    ],
    rows: workers.map((worker) => [
      worker.name,
      worker.host,
      worker.threads,
      worker.memoryLimit,
      worker.startedAt,
      worker.endedAt,
      worker.end ? END_NAMES[worker.end.kind] : standing(worker),
      worker.end?.lastMemory ?? null,
      worker.end?.lostResults ?? null,
    ]),
  };
}
