import { describe, expect, it } from "vitest";
import { frameGroups, frames, packageOf, shortFile } from "./traceback.ts";

// As `traceback.format_tb` of Python 3.11 prints it.
const TEXT = [
  '  File "/home/teodor/backfill/parse.py", line 61, in parse_sensor',
  '    df["level"] = pd.to_numeric(df["level"])',
  "                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^",
  '  File "/opt/venv/lib/python3.11/site-packages/pandas/core/tools/numeric.py", line 232, in to_numeric',
  "    values = lib.maybe_convert(",
  "             ~~~~~~~~~~~~~~~~~^",
  '  File "/opt/venv/lib/python3.11/site-packages/pandas/core/series.py", line 7, in <lambda>',
  '  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode',
  "    raise JSONDecodeError",
  "",
].join("\n");

describe("traceback", () => {
  it("is read frame by frame, without Python's marks", () => {
    expect(frames(TEXT)).toEqual([
      {
        file: "/home/teodor/backfill/parse.py",
        line: 61,
        name: "parse_sensor",
        code: 'df["level"] = pd.to_numeric(df["level"])',
      },
      {
        file: "/opt/venv/lib/python3.11/site-packages/pandas/core/tools/numeric.py",
        line: 232,
        name: "to_numeric",
        code: "values = lib.maybe_convert(",
      },
      {
        file: "/opt/venv/lib/python3.11/site-packages/pandas/core/series.py",
        line: 7,
        name: "<lambda>",
        code: "",
      },
      {
        file: "/usr/lib/python3.11/json/decoder.py",
        line: 355,
        name: "raw_decode",
        code: "raise JSONDecodeError",
      },
    ]);
    expect(frames("")).toEqual([]);
  });

  it("is grouped by the package of the frames", () => {
    expect(frameGroups(frames(TEXT)).map((group) => [group.package, group.frames.length])).toEqual([
      [null, 1],
      ["pandas", 2],
      ["Python", 1],
    ]);
  });

  it("knows installed code on all systems", () => {
    expect(packageOf("C:\\envs\\a\\Lib\\site-packages\\numpy\\core.py")).toBe("numpy");
    expect(packageOf("/usr/lib/python3/dist-packages/six.py")).toBe("six");
    expect(packageOf("<frozen importlib._bootstrap>")).toBe("Python");
    expect(packageOf("/tmp/ipykernel_12/3390.py")).toBeNull();
    expect(shortFile("/home/teodor/backfill/parse.py")).toBe("backfill/parse.py");
  });
});
