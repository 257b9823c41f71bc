import { bytes } from "@/format/bytes.ts";
import { counted } from "@/format/number.ts";
import type { HeaderCluster } from "./shown.ts";

type Sized = Pick<HeaderCluster, "totals" | "workers">;

/**
 * Returns the largest size of the cluster: `24 workers × 4 threads, 384 GiB`. The product is written only if all
 * workers that ever joined are known and alike; otherwise the numbers stand alone.
 */
export function sizeText({ totals, workers }: Sized): string {
  const { peakWorkers, peakThreads } = totals;
  const [first] = workers.nodes;
  const isKnown = first !== undefined && workers.nodes.length === totals.workers;
  const areAlike = (name: "threads" | "memoryLimit") =>
    isKnown && workers.nodes.every((worker) => worker[name] === first[name]);
  if (!areAlike("threads") || !first || first.threads * peakWorkers !== peakThreads)
    return `${counted(peakWorkers, "worker")} with ${counted(peakThreads, "thread")}`;
  const size = `${counted(peakWorkers, "worker")} × ${counted(first.threads, "thread")}`;
  if (!areAlike("memoryLimit") || first.memoryLimit === null) return size;
  return `${size}, ${bytes(first.memoryLimit * peakWorkers)}`;
}

/** Returns the versions of Dask and Python in words, as far as they are known. */
export function softwareText(environment: HeaderCluster["environment"]): string {
  const version = environment?.packages.find(({ name }) => name === "distributed")?.version;
  const python = environment?.python?.replace(/\.final\.0$/, "");
  return [version && `Dask ${version}`, python && `Python ${python}`].filter(Boolean).join(", ");
}
