import { describe, expect, it } from "vitest";
import { chosenHere, groupsHere, hereText, mayMiss, UNGROUPED } from "./here.ts";

const error = (id: string, at: string, group: string | null) => ({
  id,
  at: `2026-11-24T${at}Z`,
  group: group === null ? null : { id: group },
});

const group = (id: string) => ({ id });

// The newest one first, as the server lists them.
const errors = [
  error("e5", "02:50:00", "killed"),
  error("e4", "02:40:00", "value"),
  error("e3", "02:40:00", "value"),
  error("e2", "02:30:00", null),
  error("e1", "02:20:00", "value"),
];

const told = (rows: ReturnType<typeof groupsHere<{ id: string }, (typeof errors)[0]>>) =>
  rows.map((row) => [row.id, row.errors.map(({ id }) => id).join(" "), row.isLeast]);

describe("the errors of a cluster by group", () => {
  it("are counted here and not everywhere, the newest group first", () => {
    expect(told(groupsHere([group("value"), group("killed")], errors, 5, null))).toEqual([
      ["killed", "e5", false],
      ["value", "e4 e3 e1", false],
      [UNGROUPED, "e2", false],
    ]);
  });

  it("are a lower bound while older ones are not loaded", () => {
    const groups = [group("value"), group("killed"), group("old")];
    expect(told(groupsHere(groups, errors, 9, null))).toEqual([
      ["killed", "e5", true],
      ["value", "e4 e3 e1", true],
      [UNGROUPED, "e2", true],
      ["old", "", true],
    ]);
  });

  it("are those of the period, which begins inclusively and ends exclusively", () => {
    const period = { from: "2026-11-24T02:30:00Z", to: "2026-11-24T02:50:00Z" };
    // The oldest loaded error is before the period: nothing of it is missing.
    expect(told(groupsHere([group("value"), group("killed")], errors, 9, period))).toEqual([
      ["value", "e4 e3", false],
      [UNGROUPED, "e2", false],
    ]);
  });

  it("may miss errors of a period that begins before the oldest loaded one", () => {
    const period = (from: string) => ({ from: `2026-11-24T${from}Z`, to: "2026-11-24T03:00:00Z" });
    expect(mayMiss(errors, 9, period("02:20:01"))).toBe(false);
    expect(mayMiss(errors, 9, period("02:20:00"))).toBe(true);
    expect(mayMiss(errors, 5, period("00:00:00"))).toBe(false);
    expect(mayMiss([], 0, null)).toBe(false);
    expect(mayMiss([], 3, null)).toBe(true);
  });

  it("are chosen by an error or by a group", () => {
    const rows = groupsHere([group("value"), group("killed")], errors, 5, null);
    const chosen = (open: string | undefined) => {
      const { row, error: of } = chosenHere(rows, open);
      return [row?.id, of?.id];
    };
    expect(chosen("value")).toEqual(["value", "e4"]);
    expect(chosen("e3")).toEqual(["value", "e3"]);
    expect(chosen("gone")).toEqual([undefined, undefined]);
    expect(chosen(undefined)).toEqual([undefined, undefined]);
  });

  it("are never counted as none while they are not loaded", () => {
    const text = (size: number, isLeast: boolean) => hereText({ errors: errors.slice(0, size), isLeast });
    expect([text(3, false), text(3, true), text(0, true)]).toEqual(["3", "3 or more", "older ones"]);
  });
});
