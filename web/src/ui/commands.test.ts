import { describe, expect, it } from "vitest";
import { type Command, keyName, matchKeys } from "./commands.ts";

const command = (id: string, keys: string): Command => ({
  id,
  keys,
  label: id,
  group: "Page",
  run: () => {},
});
const all = [command("clusters", "g c"), command("compare", "c"), command("copy", "c"), command("help", "?")];

describe("the keyboard map", () => {
  it("waits for the second key of a sequence", () => {
    expect(matchKeys(all, "g")).toEqual({ command: undefined, isPrefix: true });
    expect(matchKeys(all, "g c").command?.id).toBe("clusters");
    expect(matchKeys(all, "g x")).toEqual({ command: undefined, isPrefix: false });
  });
  it("prefers the innermost part of the page", () => {
    expect(matchKeys(all, "c").command?.id).toBe("copy");
  });
  it("takes a fallback only if nothing else has its keys, whatever was registered last", () => {
    const back = { ...command("back", "Escape"), isFallback: true };
    expect(matchKeys([command("clear", "Escape"), back], "Escape").command?.id).toBe("clear");
    expect(matchKeys([...all, back], "Escape").command?.id).toBe("back");
  });
  it("takes letters by name where the layout has them, and by place where it has not", () => {
    expect(keyName({ key: "q", code: "KeyA" })).toBe("q");
    expect(keyName({ key: "с", code: "KeyC" })).toBe("c");
    expect(keyName({ key: "?", code: "Slash" })).toBe("?");
    expect(keyName({ key: "Escape", code: "Escape" })).toBe("Escape");
  });
});
