import { memo, useEffect, useMemo, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { tokenValue } from "../colour.ts";
import { textWidth } from "../text_width.ts";
import { areaNames } from "./area_names.ts";
import styles from "./lanes.module.css";
import { gaps, stacked, withGaps, withSteps } from "./prepare.ts";
import type { Layer, PlotLane, TimeRange } from "./types.ts";

interface PlotProps {
  lane: PlotLane;
  shown: TimeRange;
  width: number;
  /** The colours that are shown; the canvas is drawn again when they change. */
  theme: string;
  settledUntil: number | null;
}

/** The plot of one lane. Times without reports are marked, and never drawn as zero. */
export const Plot = memo(function Plot({ lane, shown, width, theme, settledUntil }: PlotProps) {
  const host = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme stands for the values of the tokens
  useEffect(() => {
    const element = host.current;
    if (!element || width <= 0 || lane.times.length === 0) return;
    const { options, data } = chart(lane, shown, width, settledUntil);
    const plot = new uPlot(options, data, element);
    return () => plot.destroy();
  }, [lane, shown, width, theme, settledUntil]);
  const names = useMemo(
    () => (width > 0 ? areaNames(lane, shown, width, nameWidth) : []),
    [lane, shown, width],
  );
  return (
    <div className={styles.plot} style={{ height: lane.height }}>
      <span className={styles.rule} style={{ top: "50%" }} />
      <span className={`${styles.rule} ${styles.base}`} style={{ top: "100%" }} />
      {lane.limit && lane.limit.value <= lane.max && (
        <span
          className={`${styles.rule} ${styles.limit}`}
          style={{ top: `${(1 - lane.limit.value / lane.max) * 100}%` }}
        />
      )}
      {lane.times.length === 0 ? (
        <p className={styles.empty}>{lane.empty ?? "Not reported"}</p>
      ) : (
        gaps(lane, shown).map(({ from, to }) => (
          <span
            key={from}
            className={styles.gap}
            style={{ left: `${from * 100}%`, width: `${(to - from) * 100}%` }}
          >
            {(to - from) * width > 48 && "no data"}
          </span>
        ))
      )}
      <div ref={host} aria-hidden="true" />
      {names.map(({ id, label, x, y }) => (
        <span
          key={id}
          className={`${styles.areaName} truncated`}
          style={{ left: x, top: y }}
          aria-hidden="true"
        >
          {label}
        </span>
      ))}
    </div>
  );
});

/** The room beside the letters of a name. */
const NAME_PADDING = 14;
const nameWidth = (label: string) => NAME_PADDING + textWidth(label, 11);

const AREA_OPACITY = 0.74;

function chart(lane: PlotLane, shown: TimeRange, width: number, settledUntil: number | null) {
  const areas = lane.layers.filter(({ draw }) => draw === "area");
  const sums = stacked(areas.map(({ values }) => values));
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  const columns: (readonly (number | null)[])[] = [];

  // The largest sum is drawn first, and each smaller one over it.
  for (let i = areas.length - 1; i >= 0; i--) {
    const layer = areas[i];
    const values = sums[i];
    if (!layer || !values) continue;
    columns.push(values);
    const line = tokenValue(layer.colour);
    series.push({ stroke: line, width: 1, fill: areaFill(layer), points: { show: false } });
    if (i > 0) bands.push({ series: [columns.length, columns.length + 1], fill: areaFill(layer) });
  }
  for (const layer of lane.layers) {
    if (layer.draw === "band" && layer.low && layer.high) {
      columns.push(layer.high, layer.low);
      series.push({ points: { show: false } }, { points: { show: false } });
      bands.push({ series: [columns.length - 1, columns.length], fill: tokenValue("--line-2") });
    }
    if (layer.draw === "area") continue;
    columns.push(layer.values);
    series.push({
      stroke: tokenValue(layer.colour),
      width: 1.3,
      points: { show: false },
      ...(layer.draw === "steps" && uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
    });
  }

  const gapped = withGaps(lane.times, columns, lane.stepSeconds);
  const drawn = lane.hasSteps ? withSteps(gapped, lane.stepSeconds) : gapped;
  const options: uPlot.Options = {
    width,
    height: lane.height,
    padding: [1, 0, 0, 0],
    scales: {
      x: { time: false, range: () => [shown.from, shown.to] },
      y: { range: () => [0, lane.max] },
    },
    axes: [{ show: false }, { show: false }],
    legend: { show: false },
    cursor: { show: false },
    series,
    bands,
    hooks: { draw: [(plot) => fadeUnsettled(plot, settledUntil)] },
  };
  return { options, data: [drawn.times, ...drawn.values] as unknown as uPlot.AlignedData };
}

/** Makes what later reports may change paler. */
function fadeUnsettled(plot: uPlot, settledUntil: number | null): void {
  if (settledUntil === null) return;
  const left = plot.valToPos(settledUntil, "x", true);
  const right = plot.bbox.left + plot.bbox.width;
  if (left >= right) return;
  plot.ctx.save();
  plot.ctx.globalAlpha = 0.5;
  plot.ctx.fillStyle = tokenValue("--bg-panel");
  plot.ctx.fillRect(left, plot.bbox.top, right - left, plot.bbox.height);
  plot.ctx.restore();
}

function areaFill(layer: Layer): (plot: uPlot) => CanvasPattern | string {
  return (plot) => {
    const colour = tokenValue(layer.colour);
    if (!layer.isHatched) return withOpacity(colour, AREA_OPACITY);
    return hatch(plot.ctx, colour) ?? colour;
  };
}

/** Returns a colour of six hexadecimal digits with an opacity. */
export function withOpacity(hex: string, opacity: number): string {
  const alpha = Math.round(opacity * 255)
    .toString(16)
    .padStart(2, "0");
  return /^#[0-9a-f]{6}$/i.test(hex) ? hex + alpha : hex;
}

function hatch(target: CanvasRenderingContext2D, colour: string): CanvasPattern | null {
  const size = 6;
  const tile = document.createElement("canvas");
  tile.width = size;
  tile.height = size;
  const context = tile.getContext("2d");
  if (!context) return null;
  context.fillStyle = withOpacity(colour, 0.9);
  context.fillRect(0, 0, size, size);
  context.strokeStyle = withOpacity(tokenValue("--bg-panel"), 0.6);
  context.lineWidth = 1.2;
  for (const shift of [-size, 0, size]) {
    context.beginPath();
    context.moveTo(shift, size);
    context.lineTo(shift + size, 0);
    context.stroke();
  }
  return target.createPattern(tile, "repeat");
}
