import { useEffect, useRef, useSyncExternalStore } from "react";
import { useAccount } from "@/data/account.ts";
import type { Document } from "@/data/ask.ts";
import { subscribe } from "./socket.ts";
import { type LiveState, liveState, subscribeToLiveState } from "./status.ts";

export function useLiveState(): LiveState {
  return useSyncExternalStore(subscribeToLiveState, liveState);
}

interface LiveOptions<Result> {
  /** Nothing is subscribed while this is false, for example for a closed cluster. */
  enabled: boolean;
  /** The `liveCursor` that was read before the page's first query. */
  after: string | null;
  cursor(data: Result): string;
  onPayload(data: Result): void;
}

/** Subscribes while the component is shown, and resumes after the last payload's cursor. */
export function useLive<Result, Variables extends Record<string, unknown>>(
  document: Document<Result, Variables>,
  variables: Omit<Variables, "after" | "account">,
  options: LiveOptions<Result>,
): void {
  const account = useAccount();
  const latest = useRef(options);
  latest.current = options;
  const cursor = useRef(options.after);
  const key = JSON.stringify(variables);
  const { enabled } = options;
  useEffect(() => {
    if (!enabled) return;
    const fixed = JSON.parse(key) as Record<string, unknown>;
    return subscribe(
      account,
      document,
      () => ({ ...fixed, account, after: cursor.current }) as unknown as Variables,
      {
        onPayload: (data) => {
          cursor.current = latest.current.cursor(data);
          latest.current.onPayload(data);
        },
      },
    );
  }, [account, document, enabled, key]);
}
