import { describe, expect, it } from "vitest";
import { partOf } from "./part.ts";

const START = "2026-11-24T09:00:00.000Z";

describe("the part of the run that tabs show", () => {
  it("is the chosen one without a playback", () => {
    expect(partOf({}, START, null)).toEqual({ from: undefined, to: undefined });
    const chosen = { from: "2026-11-24T09:01:00.000Z", to: "2026-11-24T09:02:00.000Z" };
    expect(partOf(chosen, START, null)).toEqual(chosen);
  });

  it("reaches from the start of the run or of the chosen part to where the playback is", () => {
    const to = "2026-11-24T09:01:30.000Z";
    expect(partOf({}, START, to)).toEqual({ from: START, to });
    const from = "2026-11-24T09:01:00.000Z";
    expect(partOf({ from, to: "2026-11-24T09:02:00.000Z" }, START, to)).toEqual({ from, to });
  });

  it("is never empty, which would be the whole run", () => {
    expect(partOf({}, START, START)).toEqual({ from: START, to: "2026-11-24T09:00:00.001Z" });
  });
});
