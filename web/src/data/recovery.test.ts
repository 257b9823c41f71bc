import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Failure } from "./failure.ts";
import { markReachable, markUnreachable, unreachableSince } from "./reachability.ts";
import { recoverQueries } from "./recovery.ts";

let client: QueryClient;
let status: number | null;
let probes: number;

beforeEach(() => {
  vi.useFakeTimers();
  [status, probes] = [null, 0];
  vi.stubGlobal("fetch", async () => {
    probes += 1;
    if (status === null) throw new TypeError("network");
    return { status };
  });
  client = new QueryClient({ defaultOptions: { queries: { retry: false, networkMode: "always" } } });
  recoverQueries(client);
});

afterEach(() => {
  client.clear();
  markReachable();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Shows a query that fails until `answer` says otherwise. */
function show(answer: () => string) {
  const queryFn = vi.fn(async () => answer());
  const observer = new QueryObserver(client, { queryKey: ["shown"], queryFn });
  observer.subscribe(() => {});
  return { queryFn, data: () => observer.getCurrentResult().data };
}

describe("a server that is away", () => {
  it("is asked every 5 s, and failed queries are repeated once it is back", async () => {
    let isBack = false;
    const shown = show(() => {
      if (isBack) return "data";
      markUnreachable();
      throw new Failure("offline", "");
    });
    await vi.advanceTimersByTimeAsync(11_000);
    expect(probes).toBe(2);
    expect(shown.queryFn).toHaveBeenCalledTimes(1);
    status = 502;
    await vi.advanceTimersByTimeAsync(5_000);
    expect(unreachableSince()).not.toBeNull();
    [status, isBack] = [200, true];
    await vi.advanceTimersByTimeAsync(5_000);
    expect(unreachableSince()).toBeNull();
    expect(shown.data()).toBe("data");
    await vi.advanceTimersByTimeAsync(30_000);
    expect(probes).toBe(4);
  });

  it("may be found by another request first", async () => {
    let isBack = false;
    const shown = show(() => {
      if (isBack) return "data";
      markUnreachable();
      throw new Failure("offline", "");
    });
    await vi.advanceTimersByTimeAsync(1_000);
    isBack = true;
    markReachable();
    await vi.advanceTimersByTimeAsync(0);
    expect(shown.data()).toBe("data");
    await vi.advanceTimersByTimeAsync(30_000);
    expect(probes).toBe(0);
  });
});

describe("a query that took too long", () => {
  it("is repeated once, and again only after an answer", async () => {
    let isSlow = true;
    const shown = show(() => {
      if (isSlow) throw new Failure("timeout", "");
      return "data";
    });
    await vi.advanceTimersByTimeAsync(14_000);
    expect(shown.queryFn).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(shown.queryFn).toHaveBeenCalledTimes(2);

    isSlow = false;
    await client.refetchQueries();
    isSlow = true;
    await client.refetchQueries();
    isSlow = false;
    await vi.advanceTimersByTimeAsync(16_000);
    expect(shown.data()).toBe("data");
    expect(shown.queryFn).toHaveBeenCalledTimes(5);
  });
});
