import { describe, expect, it } from "vitest";
import type { DataClass } from "@/data/gql/graphql.ts";
import { withoutErrors } from "./without.ts";

function cluster(tasksErred: number, withheld: Partial<Record<DataClass, number | null>>, dropped = 0) {
  const receipt = (name: DataClass) => ({
    class: name,
    sent: withheld[name] === null ? null : 0,
    withheld: withheld[name] === undefined ? 0 : withheld[name],
    dropped: 0,
    accepted: true,
  });
  return {
    totals: { errors: 0, tasksErred },
    dropped: { errors: dropped },
    privacy: { classes: [receipt("TASKS"), receipt("USER_ERRORS")] },
  };
}

const told = (...facts: Parameters<typeof cluster>) => {
  const { kind, title } = withoutErrors(cluster(...facts));
  return [kind, title];
};

describe("a cluster without stored errors", () => {
  it("had no failed task if its tasks were counted", () => {
    expect(told(0, {})).toEqual(["none", "No task failed"]);
    expect(told(0, { USER_ERRORS: 0 })).toEqual(["none", "No task failed"]);
  });

  it("is unknown if its tasks were not reported, or errors were discarded", () => {
    expect(told(0, { TASKS: 4 })).toEqual(["unknown", "No error is stored"]);
    expect(told(0, { TASKS: null })).toEqual(["unknown", "No error is stored"]);
    expect(told(0, {}, 2)).toEqual(["unknown", "No error is stored"]);
    expect(told(0, { TASKS: null, USER_ERRORS: null })).toEqual(["unknown", "No error was reported"]);
  });

  it("may have failed tasks whose errors were withheld", () => {
    expect(withoutErrors(cluster(12, { USER_ERRORS: 12 }))).toEqual({
      kind: "withheld",
      title: "12\u00a0tasks failed, and no error is stored",
      text:
        "The cluster withheld 12\u00a0errors. " +
        "Its setting galvo.errors.transmit was off, or the account refused them at that time.",
    });
  });
});
