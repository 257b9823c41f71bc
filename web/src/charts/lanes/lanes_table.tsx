import { useMemo } from "react";
import { clockSeconds } from "@/format/time.ts";
import { type Column, Table } from "@/ui/table.tsx";
import { valueAt } from "./prepare.ts";
import type { Lane, PlotLane, TimeRange } from "./types.ts";

/** The values of the lanes as a table, one row for each time that has any. */
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
  const times = useMemo(() => {
    const all = new Set(plots.flatMap((lane) => lane.times));
    return [...all].filter((at) => at >= shown.from && at <= shown.to).sort((a, b) => a - b);
  }, [plots, shown]);
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
  const step = plots[0]?.stepSeconds;
  return (
    <Table
      label={label}
      columns={columns}
      rows={times}
      rowKey={String}
      foot={step === undefined ? undefined : `One row for every ${step} s. Values are means of that time.`}
    />
  );
}
