/** The states of the live connection. */
export type LiveState =
  | { kind: "off" }
  | { kind: "connecting" }
  | { kind: "live"; lastPayloadAt: number }
  | { kind: "reconnecting"; since: number }
  | { kind: "paused" };

let state: LiveState = { kind: "off" };
const listeners = new Set<() => void>();

export function liveState(): LiveState {
  return state;
}

export function setLiveState(next: LiveState): void {
  state = next;
  for (const listener of listeners) listener();
}

export function subscribeToLiveState(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
