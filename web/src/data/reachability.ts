/** The server's reachability, as of the last requests: null if it answers, else since when it does not. */
let since: number | null = null;
const listeners = new Set<() => void>();

function setSince(next: number | null): void {
  if (next === since) return;
  since = next;
  for (const listener of listeners) listener();
}

/** Returns true if the status is that of a server without its store, or of a proxy without its server. */
export function isUnavailable(status: number): boolean {
  return status === 502 || status === 503;
}

export function markReachable(): void {
  setSince(null);
}

export function markUnreachable(): void {
  if (since === null) setSince(Date.now());
}

/** Returns the time since which the server has not answered, in milliseconds. Null if it answers. */
export function unreachableSince(): number | null {
  return since;
}

export function subscribeToReachability(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
