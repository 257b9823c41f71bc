import type { ClusterOrderField } from "@/data/gql/graphql.ts";

/** The names of the server's orders in an address. */
export const ORDERS: Record<string, ClusterOrderField> = {
  started: "STARTED_AT",
  ended: "ENDED_AT",
  lasted: "DURATION",
  threads: "THREAD_SECONDS",
  compute: "COMPUTE_SECONDS",
  errors: "ERRORS",
  tasks: "TASKS",
  seen: "LAST_SEEN_AT",
  cost: "COST",
};

export interface NamedOrder {
  by: string;
  direction: "asc" | "desc";
}

/** Reads `-cost`. An order that the server does not have is the default: the newest first. */
export function parseOrder(text: string | undefined): NamedOrder {
  const direction = text?.startsWith("-") ? "desc" : "asc";
  const by = text?.replace(/^-/, "") ?? "";
  return Object.hasOwn(ORDERS, by) ? { by, direction } : { by: "started", direction: "desc" };
}

/** Writes an order. The default is left out of the address. */
export function orderText({ by, direction }: NamedOrder): string | undefined {
  const text = `${direction === "desc" ? "-" : ""}${by}`;
  return text === "-started" ? undefined : text;
}
