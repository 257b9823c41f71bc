import { describe, expect, it } from "vitest";
import { affected, type Occurrence } from "./use_occurrences.ts";

const on = (id: string, name: string | null) =>
  ({ cluster: { id, user: name === null ? null : { id: name, name } } }) as Occurrence;

describe("the users of a group of errors", () => {
  it("are those of its clusters, each once", () => {
    const rows = [on("3", "okan"), on("2", "ada"), on("2", "ada"), on("1", null)];
    expect(affected(rows, 3)).toEqual({ names: ["a user who left", "ada", "okan"], isComplete: true });
  });
  it("are not all known while errors of other clusters are not loaded", () => {
    expect(affected([on("1", "ada"), on("1", "ada")], 2)).toEqual({ names: ["ada"], isComplete: false });
    expect(affected([], 1)).toEqual({ names: [], isComplete: false });
  });
});
