import { describe, expect, it } from "vitest";
import { absence, missing, type Receipt } from "./receipts.ts";

const words = { one: "log line", many: "log lines", setting: "galvo.logs.transmit" };

function receipt(change: Partial<Receipt>): Receipt {
  return { class: "LOGS", sent: 0, withheld: 0, dropped: 0, accepted: true, ...change };
}

describe("the reason why there are no items", () => {
  it("is that there were none only if the cluster says so", () => {
    expect(absence(receipt({}), words)).toEqual({ kind: "none", title: "There was no log line", text: "" });
    const unknown = {
      kind: "unknown",
      title: "No log line was reported",
      text: "The cluster did not report whether it withheld any, so it is unknown whether there were log lines.",
    };
    expect(absence(undefined, words)).toEqual(unknown);
    expect(absence(receipt({ sent: null, withheld: null, dropped: null }), words)).toEqual(unknown);
  });

  it("names the setting, the account or the retention", () => {
    expect(absence(receipt({ withheld: 1 }), words)).toEqual({
      kind: "withheld",
      title: "The cluster withheld 1\u00a0log line",
      text: "Its setting galvo.logs.transmit was off, or the account refused them at that time.",
    });
    expect(absence(receipt({ withheld: 1 }), { ...words, setting: null }).text).toBe(
      "The account refused them at that time.",
    );
    expect(absence(receipt({ accepted: false, withheld: 12, dropped: 3 }), words)).toEqual({
      kind: "refused",
      title: "The account refuses log lines",
      text:
        "The cluster withheld 12\u00a0log lines. The server discarded 3\u00a0log lines on arrival. " +
        "Owners and admins change what the account accepts.",
    });
    expect(absence(receipt({ sent: 1204 }), words)).toEqual({
      kind: "deleted",
      title: "Log lines are no longer stored",
      text: "The cluster sent 1,204. They were deleted, or are older than the account keeps them.",
    });
  });
});

describe("what is missing", () => {
  it("is one sentence for each cause, and none if nothing is missing", () => {
    expect(missing(receipt({ sent: 9 }), 0, words)).toEqual([]);
    expect(missing(receipt({ withheld: 2, dropped: 1 }), 1200, words)).toEqual([
      "The cluster discarded 1,200\u00a0log lines, because there were too many at once.",
      "It withheld 2\u00a0log lines.",
      "The server discarded 1\u00a0log line that the account refused.",
    ]);
  });
});
