import { describe, expect, it } from "vitest";
import { codeLines, linesIn, placeText, ranIn, snippetsOf, withoutCode } from "./snippets.ts";

const frame = (
  file: string | null,
  line: number | null,
  hash: string | null,
  relativeLine: number | null = 0,
) => ({
  file,
  line,
  relativeLine,
  snippet: hash === null ? null : { hash },
});

const run = (id: string, at: string, code: ReturnType<typeof frame>[][], ended: string | null = at) => ({
  id,
  startedAt: `2026-11-24T${at}Z`,
  endedAt: ended === null ? null : `2026-11-24T${ended}Z`,
  code,
});

// A script whose function calls Dask, and a later run of the script that calls Dask on two lines itself.
const main = frame("/srv/etl/main.py", 40, "main");
const load = frame("/srv/etl/load.py", 12, "load");
const newer = run("newer", "02:30:00", [[main], [frame("/srv/etl/main.py", 44, "main", 4)]], null);
const older = run("older", "02:00:00", [[main, load]], "02:10:00");

const told = (computations: (typeof newer)[], period: Parameters<typeof snippetsOf>[1] = null) =>
  snippetsOf(computations, period).map((snippet) => [
    snippet.id,
    placeText(snippet),
    snippet.computations.map(({ id }) => id).join(" "),
  ]);

describe("pieces of code", () => {
  it("are listed once, with all computations that ran them", () => {
    expect(told([newer, older])).toEqual([
      ["main", "etl/main.py:40", "newer older"],
      ["load", "etl/load.py:12", "older"],
    ]);
    expect(told([older])).toEqual([
      ["load", "etl/load.py:12", "older"],
      ["main", "etl/main.py:40", "older"],
    ]);
    expect(told([run("none", "02:00:00", [])])).toEqual([]);
  });

  it("have a row for each place if they have no text", () => {
    const bare = run("bare", "02:00:00", [[frame("a.py", 3, null), frame(null, null, null)]]);
    expect(told([bare])).toEqual([
      ["unknown:unknown", "file unknown", "bare"],
      ["a.py:3", "a.py:3", "bare"],
    ]);
  });

  it("are those of computations that ran in the period", () => {
    const period = (from: string, to: string) => ({
      from: `2026-11-24T${from}Z`,
      to: `2026-11-24T${to}Z`,
    });
    expect(ranIn(older, period("02:10:00", "02:20:00"))).toBe(true);
    expect(ranIn(older, period("02:10:01", "02:20:00"))).toBe(false);
    expect(ranIn(older, period("01:00:00", "02:00:00"))).toBe(false);
    // It has not ended.
    expect(ranIn(newer, period("05:00:00", "06:00:00"))).toBe(true);
    expect(told([newer, older], period("02:15:00", "03:00:00"))).toEqual([
      ["main", "etl/main.py:40", "newer"],
    ]);
  });

  it("have the lines of the calls", () => {
    expect(linesIn(newer, "main")).toEqual([40, 44]);
    expect(linesIn(older, "load")).toEqual([12]);
  });
});

describe("the text of a piece of code", () => {
  const node = (text: string | null, line: number | null = 12) => ({
    id: "computation",
    code: [[{ file: "load.py", line, relativeLine: 1, snippet: { hash: "load", text } }]],
  });

  it("is numbered as in the file, with the calls", () => {
    expect(codeLines(node("def load():\n    return df.compute()\n"), "load")).toEqual([
      { number: 11, text: "def load():", isCall: false },
      { number: 12, text: "    return df.compute()", isCall: true },
    ]);
    expect(codeLines(node("a\nb", null), "load")).toEqual([
      { number: 1, text: "a", isCall: false },
      { number: 2, text: "b", isCall: true },
    ]);
  });

  it("is null if it is not stored", () => {
    expect(codeLines(node(null), "load")).toBeNull();
    expect(codeLines(node("a"), "other")).toBeNull();
    expect(codeLines(null, "load")).toBeNull();
  });
});

describe("a cluster without code", () => {
  const receipt = { class: "CODE", sent: 7, withheld: 0, dropped: 0, accepted: true } as const;
  it("names Dask's setting, unless the code was withheld", () => {
    expect(withoutCode(receipt, 3)).toEqual({
      kind: "unknown",
      title: "No code was reported for 3\u00a0computations",
      text:
        "Dask notes the code of a computation only if distributed.diagnostics.computations.nframes is above 0 in " +
        "the process that submits work.",
    });
    expect(withoutCode({ ...receipt, withheld: 2 }, 3)).toEqual({
      kind: "withheld",
      title: "The cluster withheld 2\u00a0pieces of code",
      text: "Its setting galvo.computation.code.transmit was off, or the account refused them at that time.",
    });
  });
});
