import type { ClusterErrorGroupsQuery } from "@/data/gql/graphql.ts";
import { counted } from "@/format/number.ts";
import { type Absence, absence, receiptOf } from "../receipts/receipts.ts";

export const ERRORS = { one: "error", many: "errors", setting: "galvo.errors.transmit" };

type Facts = Pick<NonNullable<ClusterErrorGroupsQuery["cluster"]>, "privacy" | "dropped" | "totals">;

/**
 * Returns the reason why no error is stored. Failed tasks are counted even if their exceptions are withheld, so
 * that no task failed is certain if the tasks were reported.
 */
export function withoutErrors(cluster: Facts): Absence {
  const { tasksErred } = cluster.totals;
  const reason = absence(receiptOf(cluster, "USER_ERRORS"), ERRORS);
  if (tasksErred > 0) {
    const failed = `${counted(tasksErred, "task")} failed, and no error is stored`;
    if (reason.kind === "none") return { kind: "unknown", title: failed, text: "" };
    return { kind: reason.kind, title: failed, text: `${reason.title}. ${reason.text}` };
  }
  const tasks = receiptOf(cluster, "TASKS");
  const isCounted = tasks?.accepted === true && tasks.withheld === 0;
  if (isCounted && cluster.dropped.errors === 0) return { kind: "none", title: "No task failed", text: "" };
  return reason.kind === "none" ? { ...reason, kind: "unknown", title: "No error is stored" } : reason;
}
