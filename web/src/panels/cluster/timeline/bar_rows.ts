import { functionTokens } from "@/charts/colour.ts";
import type { Bar, BarsLane } from "@/charts/lanes/types.ts";
import { threadTime } from "@/format/duration.ts";
import { count, counted } from "@/format/number.ts";
import type { Marked } from "./marks.ts";

const seconds = (at: string) => Date.parse(at) / 1000;

/** Puts bars into the first row in which they do not overlap. */
export function rowsWithoutOverlap(bars: readonly Bar[], most: number): { rows: Bar[][]; left: number } {
  const rows: Bar[][] = [];
  let left = 0;
  for (const bar of [...bars].sort((a, b) => a.from - b.from)) {
    const row = rows.find((candidate) => (candidate.at(-1)?.to ?? 0) <= bar.from);
    if (row) row.push(bar);
    else if (rows.length < most) rows.push([bar]);
    else left += 1;
  }
  return { rows, left };
}

/** Returns the spans by depth. Overlapping spans of one depth take further rows. */
export function spansLane(spans: Pick<Marked["spans"], "totalCount" | "nodes">, end: number): BarsLane {
  const { totalCount, nodes } = spans;
  const byId = new Map(nodes.map((span) => [span.id, span]));
  const depth = (id: string): number => {
    const parent = byId.get(id)?.parent;
    return parent ? depth(parent.id) + 1 : 0;
  };
  const levels: Bar[][] = [];
  for (const span of nodes) {
    const { tasks, tasksErred, computeSeconds } = span.totals;
    const failed = tasksErred > 0 ? `, ${count(tasksErred)} failed` : "";
    const level = depth(span.id);
    levels[level] ??= [];
    levels[level].push({
      id: span.id,
      from: seconds(span.startedAt ?? span.enqueuedAt),
      to: span.stoppedAt ? seconds(span.stoppedAt) : end,
      label: span.tag ?? span.path.join(" / "),
      detail: `${threadTime(computeSeconds)} in ${counted(tasks, "task")}${failed}`,
      tone: tasksErred > 0 ? "bad" : "plain",
    });
  }
  const placed = levels.map((bars) => rowsWithoutOverlap(bars, 6));
  const left = placed.reduce((sum, level) => sum + level.left, 0) + totalCount - nodes.length;
  return {
    kind: "bars",
    id: "spans",
    title: "Spans",
    note: `${count(totalCount)} in ${counted(levels.length, "level")}${leftOut(left)}`,
    rows: placed.flatMap(({ rows }) => rows),
  };
}

/** Returns the task groups, from their first task's start to their last task's end. */
export function groupsLane(cluster: Marked): BarsLane {
  const { nodes, totalCount } = cluster.taskGroups;
  const colours = functionTokens([...new Set(nodes.map(({ prefix }) => prefix))]);
  const bars = nodes.flatMap((group): Bar[] => {
    if (!group.startedAt || !group.endedAt) return [];
    const colour = colours.get(group.prefix);
    return [
      {
        id: group.id,
        from: seconds(group.startedAt),
        to: seconds(group.endedAt),
        label: group.prefix,
        detail: counted(group.tasks, "task"),
        tone: group.tasksErred > 0 ? "bad" : "plain",
        ...(colour ? { colour } : {}),
      },
    ];
  });
  const { rows, left } = rowsWithoutOverlap(bars, 10);
  const note = `${count(totalCount)}, with a finished task ${bars.length}`;
  return { kind: "bars", id: "groups", title: "Task groups", note: note + leftOut(left), rows };
}

function leftOut(left: number): string {
  return left > 0 ? `, ${count(left)} not drawn` : "";
}
