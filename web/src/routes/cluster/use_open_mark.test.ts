import { describe, expect, it } from "vitest";
import { placeOfMark } from "./use_open_mark.ts";

const at = Date.parse("2026-11-24T02:10:00.000Z") / 1000;
const part = { from: "2026-11-24T02:00:00.000Z", to: "2026-11-24T02:05:00.000Z" };

describe("the place of a mark", () => {
  it("is the opened row of its tab", () => {
    expect(placeOfMark({ id: "w", kind: "death", at }, { lanes: "cpu", open: "other", q: "x" })).toEqual({
      tab: "workers",
      search: { lanes: "cpu", open: "w" },
    });
    expect(placeOfMark({ id: "e", kind: "error", at }, {})).toEqual({ tab: "errors", search: { open: "e" } });
  });

  it("is not hidden by a chosen part in which it does not lie", () => {
    const error = { id: "e", kind: "error", at } as const;
    expect(placeOfMark(error, { ...part, zoom: "yes" }).search).toEqual({ open: "e" });
    const within = { ...part, to: "2026-11-24T02:20:00.000Z" };
    expect(placeOfMark(error, within).search).toEqual({ ...within, open: "e" });
  });

  it("is in the logs of its time if it has no row", () => {
    expect(placeOfMark({ id: "event-0", kind: "event", at }, part)).toEqual({
      tab: "logs",
      search: { from: "2026-11-24T02:09:30.000Z", to: "2026-11-24T02:10:30.000Z" },
    });
  });
});
