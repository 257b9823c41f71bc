import { describe, expect, it } from "vitest";
import { type Answer, costAnswer, evidenceText, quantity, splitHeadline, worstFirst } from "./answers.ts";

const answer: Answer = {
  verdict: "UNKNOWN",
  headline: "It cost 3.7712 USD, 18 % of it while threads were idle, estimated at 0.05 USD per thread-hour.",
  value: 3.7712,
  unit: "USD",
  share: 0.18,
  confidence: "ESTIMATED",
  benefit: null,
  evidence: [
    { label: "Thread time, busy or idle", value: 75.4, unit: "thread-hours", node: null },
    { label: "Rates set", value: null, unit: null, node: null },
  ],
};
const plain = (text: string) => text.replaceAll("\u00a0", " ");

describe("answers", () => {
  it.each([
    ["7 exceptions: 6 of the code, 1 of Dask itself.", "7 exceptions", "6 of the code, 1 of Dask itself."],
    ["f takes 4 min, 56 %; but threads waited.", "f takes 4 min, 56 %", "But threads waited."],
    ["It took 4.5 h. It was lost at 02:31:04.", "It took 4.5 h", "It was lost at 02:31:04."],
    ["The GIL was busy 45.3 % of the last 5 min.", "The GIL was busy 45.3 % of the last 5 min", ""],
  ])("split %j behind the first clause", (headline, head, rest) => {
    expect(splitHeadline(headline)).toEqual({ head, rest });
  });

  it("name the amount and that it is estimated", () => {
    const shown = costAnswer(answer);
    expect([shown.head, shown.isEstimated, shown.verdict]).toEqual(["$3.77", true, "FACT"]);
    expect(plain(shown.text)).toBe("18 % of it while threads were idle. No rate is set.");
  });

  it("show their evidence with units", () => {
    expect(plain(evidenceText(answer, 2))).toBe("Thread time, busy or idle: 75.4 h · Rates set");
    expect(plain(quantity(1, "tasks"))).toBe("1 task");
    expect(plain(quantity(1288, "tasks"))).toBe("1,288 tasks");
    expect(plain(quantity(0.996, "share"))).toBe("> 99 %");
  });

  it("stand in the order of their severity", () => {
    const verdicts = (["GOOD", "NOTICE", "UNKNOWN", "BAD"] as const).map((verdict) => ({ verdict }));
    expect(worstFirst(verdicts).map(({ verdict }) => verdict)).toEqual(["BAD", "NOTICE", "UNKNOWN", "GOOD"]);
  });
});
