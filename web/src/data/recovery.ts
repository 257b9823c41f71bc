import type { Query, QueryClient } from "@tanstack/react-query";
import { serverPath } from "./base.ts";
import { Failure } from "./failure.ts";
import { isUnavailable, markReachable, subscribeToReachability, unreachableSince } from "./reachability.ts";

const PROBE_MS = 5_000;
const TIMEOUT_RETRY_MS = 15_000;

/** Repeats failed queries without the user: once the server is back, and once after a timeout. */
export function recoverQueries(client: QueryClient): void {
  probeWhileUnreachable(client);
  repeatAfterTimeout(client);
}

function probeWhileUnreachable(client: QueryClient): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const probe = async () => {
    if (await isServerAnswering()) markReachable();
    else if (unreachableSince() !== null) {
      clearTimeout(timer);
      timer = setTimeout(probe, PROBE_MS);
    }
  };
  // Another request may be the first that is answered.
  subscribeToReachability(() => {
    clearTimeout(timer);
    if (unreachableSince() !== null) timer = setTimeout(probe, PROBE_MS);
    else void client.refetchQueries({ type: "active", predicate: hasFailed });
  });
}

/** Asks for the session, which a server cannot answer without its store. */
async function isServerAnswering(): Promise<boolean> {
  try {
    const { status } = await fetch(serverPath("api/v1/session"), {
      credentials: "same-origin",
      headers: { Accept: "application/json" },
      cache: "no-store",
      signal: AbortSignal.timeout(PROBE_MS),
    });
    return !isUnavailable(status) && status !== 504;
  } catch {
    return false;
  }
}

function hasFailed({ state }: Query): boolean {
  return state.status === "error";
}

function repeatAfterTimeout(client: QueryClient): void {
  // The queries that were repeated and have not succeeded since.
  const repeated = new WeakSet<Query>();
  client.getQueryCache().subscribe((event) => {
    if (event.type !== "updated") return;
    const { query, action } = event;
    if (action.type === "success") repeated.delete(query);
    if (action.type !== "error" || repeated.has(query)) return;
    if (!(action.error instanceof Failure) || action.error.kind !== "timeout") return;
    repeated.add(query);
    setTimeout(() => {
      const { queryKey } = query;
      void client.refetchQueries({ queryKey, exact: true, type: "active", predicate: hasFailed });
    }, TIMEOUT_RETRY_MS);
  });
}
