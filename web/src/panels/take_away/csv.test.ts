import { describe, expect, it } from "vitest";
import { csv } from "./csv.ts";

describe("csv", () => {
  it("quotes by RFC 4180, leaves unknown empty, and disarms formulas", () => {
    expect(
      csv({
        head: ["user", "hours"],
        rows: [
          ['a "b", c', 1.5],
          ["=SUM(A1)", null],
          ["ines", -2],
        ],
      }),
    ).toBe('user,hours\r\n"a ""b"", c",1.5\r\n\'=SUM(A1),\r\nines,-2\r\n');
  });
});
