import { describe, expect, it } from "vitest";
import { clusterNumber, matches } from "./match.ts";

describe("the search field", () => {
  it("finds labels by their words in any order", () => {
    expect(matches("Most expensive clusters", "clus exp")).toBe(true);
    expect(matches("Most expensive clusters", "cheap")).toBe(false);
    expect(matches("Overview", "")).toBe(true);
  });
  it("reads the number of a cluster", () => {
    expect(clusterNumber("#4121")).toBe("4121");
    expect(clusterNumber(" 116678238281088 ")).toBe("116678238281088");
    expect(clusterNumber("662E41")).toBeNull();
    expect(clusterNumber("#")).toBeNull();
    expect(clusterNumber("1234567890123456789")).toBeNull();
  });
});
