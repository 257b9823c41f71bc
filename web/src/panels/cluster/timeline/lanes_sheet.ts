import { tableTimes, valueAt } from "@/charts/lanes/prepare.ts";
import type { Lane, PlotLane, TimeRange } from "@/charts/lanes/types.ts";
import type { Sheet } from "@/panels/take_away/csv.ts";
import { iso } from "./window.ts";

/** Returns the values of all drawn lanes as a table that leaves the page. Bars have no values over time. */
export function lanesSheet(lanes: readonly Lane[], shown: TimeRange): Sheet {
  const plots = lanes.filter((lane): lane is PlotLane => lane.kind === "plot" && lane.times.length > 0);
  const columns = plots.flatMap((lane) => lane.layers.map((layer) => ({ lane, layer })));
  return {
    head: [
      "time (UTC)",
      ...columns.map(({ lane, layer }) => [lane.title, layer.label, lane.unit].filter(Boolean).join(", ")),
    ],
    rows: tableTimes(plots, shown).map((at) => [
      iso(at),
      ...columns.map(({ lane, layer }) => valueAt(lane, layer, at)),
    ]),
  };
}
