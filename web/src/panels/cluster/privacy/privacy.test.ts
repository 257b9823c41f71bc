import { describe, expect, it } from "vitest";
import { discarded, finding, keptFor, known, type Receipt, standing, sumOf } from "./receipts.ts";

const plain = (text: string) => text.replaceAll("\u00a0", " ");

const receipt = (change: Partial<Receipt> = {}): Receipt => ({
  class: "TASKS",
  sent: 10,
  bytes: 500,
  withheld: 0,
  dropped: 0,
  accepted: true,
  ...change,
});
const unknown = { sent: null, bytes: null, withheld: null, dropped: null };

describe("the receipt of a cluster's data", () => {
  it.each([
    ["stored", {}],
    ["stored", { accepted: false }],
    ["partly", { withheld: 1 }],
    ["partly", { dropped: 9 }],
    ["refused", { dropped: 10 }],
    ["refused", { sent: 0, withheld: 4, accepted: false }],
    ["refused", { sent: 0, accepted: false }],
    ["withheld", { sent: 0, withheld: 4 }],
    ["none", { sent: 0 }],
    ["unreported", unknown],
    ["refused", { ...unknown, accepted: false }],
  ] as const)("is %s", (expected, change) => {
    expect(standing(receipt(change))).toBe(expected);
  });

  it("finds what was kept away", () => {
    expect(finding([receipt(), receipt({ class: "LOGS", sent: 0 })])).toBe(
      "All that was sent is stored, and nothing was withheld",
    );
    expect(finding([receipt({ sent: 0 })])).toBe("Nothing was sent yet");
    expect(finding([receipt(unknown)])).toBe("The scheduler did not report which data it sent");
    expect(
      finding([
        receipt(),
        receipt({ class: "CODE", withheld: 3 }),
        receipt({ class: "EVENTS", sent: 0, withheld: 3 }),
        receipt({ class: "LOGS", dropped: 10 }),
      ]),
    ).toBe("Code, events, and logs: withheld or refused, in full or in part");
  });

  it("sums only what is known", () => {
    expect(sumOf([receipt(), receipt(unknown), receipt({ sent: 5 })], "sent")).toBe(15);
    expect(sumOf([receipt(unknown)], "bytes")).toBeNull();
    expect([known(null), known(0), known(1234)]).toEqual(["unknown", "0", "1,234"]);
  });

  it("says how long it is kept", () => {
    expect(keptFor(null, null)).toBe("default");
    expect(plain(keptFor(null, 365))).toBe("default, at most 365 days");
    expect(plain(keptFor(14, null))).toBe("14 days");
    expect(plain(keptFor(90, 30))).toBe("30 days");
    expect(plain(keptFor(1, 30))).toBe("1 day");
  });

  it("counts what was discarded by kind", () => {
    const none = {
      computations: 0,
      taskGroups: 0,
      errors: 0,
      environments: 0,
      workers: 0,
      clients: 0,
      threadHistory: 0,
      samples: 0,
      spans: 0,
      fineMetrics: 0,
      code: 0,
      profiles: 0,
      events: 0,
      logs: 0,
      usage: 0,
      functionActivity: 0,
    };
    expect(discarded(none)).toEqual([]);
    expect(discarded({ ...none, logs: 1200, errors: 1 }).map(plain)).toEqual(["1 error", "1,200 log lines"]);
  });
});
