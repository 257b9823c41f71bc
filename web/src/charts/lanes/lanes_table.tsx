import { useMemo } from "react";
import { clockSeconds } from "@/format/time.ts";
import { type Column, Table } from "@/ui/table.tsx";
import { tableTimes, valueAt } from "./prepare.ts";
import type { Lane, PlotLane, TimeRange } from "./types.ts";

/** The values of the lanes as a table, one row for each time that has any. Lanes of wider buckets repeat theirs. */
export function LanesTable({
  label,
  lanes,
  shown,
}: {
  label: string;
  lanes: readonly Lane[];
  shown: TimeRange;
}) {
  const plots = useMemo(() => lanes.filter((lane): lane is PlotLane => lane.kind === "plot"), [lanes]);
  const times = useMemo(() => tableTimes(plots, shown), [plots, shown]);
  const columns: Column<number>[] = [
    { id: "time", head: "Time, UTC", width: "96px", cell: (at) => clockSeconds(at * 1000) },
    ...plots.flatMap((lane) =>
      lane.layers.map(
        (layer): Column<number> => ({
          id: `${lane.id}-${layer.id}`,
          head: lane.layers.length > 1 ? `${lane.title}, ${layer.label}` : lane.title,
          width: "minmax(120px, 1fr)",
          align: "end",
          cell: (at) => {
            const value = valueAt(lane, layer, at);
            return value === null ? <span className="faint">no data</span> : lane.format(value);
          },
        }),
      ),
    ),
  ];
  return <Table label={label} columns={columns} rows={times} rowKey={String} foot={resolution(plots)} />;
}

/** Returns the time that a row covers, and the lanes whose values are means of a longer time. */
function resolution(lanes: readonly PlotLane[]): string | undefined {
  const filled = lanes.filter(({ times }) => times.length > 0);
  if (filled.length === 0) return undefined;
  const least = Math.min(...filled.map(({ stepSeconds }) => stepSeconds));
  const coarse = filled.filter(({ stepSeconds }) => stepSeconds > least);
  const others = coarse.map(({ title, stepSeconds }) => `; of ${title}, of ${stepSeconds} s`);
  return `One row for every ${least} s. Values are means of that time${others.join("")}.`;
}
