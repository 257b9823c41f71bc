import type { FlagKind } from "@/data/gql/graphql.ts";

/** The kinds of flags in one or two words. */
export const FLAG_NAMES: Record<FlagKind, string> = {
  MEMORY_PRESSURE: "memory",
  WORKER_MEMORY_PRESSURE: "worker memory",
  DISK_NEARLY_FULL: "disk",
  SPILLING: "spilling",
  UNBALANCED_WORKERS: "unbalanced",
  GIL_CONTENTION: "GIL",
  EVENT_LOOP_BLOCKED: "event loop",
  MANY_FAILURES: "failures",
  OVERSIZED_GRAPH: "large graph",
  VERSION_MISMATCH: "versions",
  IDLE: "idle",
};

export const FLAG_KINDS = Object.keys(FLAG_NAMES) as FlagKind[];

/** Returns the kinds that exist, of those that an address names. */
export function flagKinds(names: readonly string[] | undefined): FlagKind[] {
  return FLAG_KINDS.filter((kind) => names?.includes(kind));
}
