import { memo, useEffect, useMemo, useRef, useState } from "react";
import { clock, clockSeconds } from "@/format/time.ts";
import { useShownTheme } from "@/ui/theme.ts";
import { useWidth } from "@/ui/use_width.ts";
import { Bars } from "./bars_lane.tsx";
import { Gutter } from "./gutter.tsx";
import styles from "./lanes.module.css";
import { markLines } from "./mark_groups.ts";
import { Marks } from "./marks.tsx";
import { Overlay } from "./overlay.tsx";
import { Plot } from "./plot_lane.tsx";
import { valueAt } from "./prepare.ts";
import { position, timeTicks } from "./scale.ts";
import type { Lane, LanesProps, Mark, PlotLane, Reference, TimeRange } from "./types.ts";
import { usePlayback } from "./use_playback.ts";

const NO_MARKS: readonly Mark[] = [];
const TICK_PIXELS = 90;
const SECOND_TICKS_BELOW = 600;

/** Quantities over one shared time axis, with one crosshair, one brush and marks through all of them. */
export function Lanes(props: LanesProps) {
  const {
    lanes,
    marks = NO_MARKS,
    shown,
    extent,
    selection,
    onSelect,
    onOpenMark,
    marksNote,
    reference,
  } = props;
  const [at, setAt] = useState<number | null>(null);
  const { isPlaying = false, onPlayed } = props;
  const playTo = (next: number) => {
    setAt(next);
    props.onPlay?.(next);
  };
  usePlayback({ isPlaying, shown, at, onMove: playTo, onEnd: () => onPlayed?.(shown.to) });
  const moveCrosshair = (next: number | null) => {
    // A pointer that leaves the chart does not take the crosshair.
    if (isPlaying && next === null) return;
    if (isPlaying) onPlayed?.(at ?? shown.from);
    setAt(next);
  };
  const plot = useRef<HTMLDivElement>(null);
  const width = useWidth(plot);
  const theme = useShownTheme();
  const hasSeconds = shown.to - shown.from < SECOND_TICKS_BELOW;
  const ticks = useMemo(() => timeTicks(shown, Math.max(2, Math.floor(width / TICK_PIXELS))), [shown, width]);
  return (
    <figure className={styles.chart} aria-label={props.label}>
      <BackgroundLines {...{ ticks, shown, width, marks, reference }} />
      <TimeLabels ticks={ticks} shown={shown} hasSeconds={hasSeconds} />
      {(marks.length > 0 || marksNote) && (
        <div className={styles.row}>
          <div className={styles.gutter}>
            <div className={styles.title}>Marks</div>
            {marksNote && <div className={styles.note}>{marksNote}</div>}
          </div>
          <Marks marks={marks} shown={shown} width={width} onPoint={setAt} onOpen={onOpenMark} />
        </div>
      )}
      <div className={styles.row} aria-hidden="true">
        <span className={styles.gutter} />
        <div ref={plot} />
      </div>
      {lanes.map((lane) => (
        <div key={lane.id} className={`${styles.row} ${styles.lane}`}>
          <Gutter lane={lane} at={at} />
          {lane.kind === "plot" ? (
            <>
              <Plot
                lane={lane}
                shown={shown}
                width={width}
                theme={theme}
                settledUntil={lane.settledUntil ?? props.settledUntil ?? null}
              />
              <ValueAxis lane={lane} />
            </>
          ) : (
            <Bars lane={lane} shown={shown} />
          )}
        </div>
      ))}
      <TimeLabels ticks={ticks} shown={shown} hasSeconds={hasSeconds} />
      <Overlay
        label={`${props.label} Arrow keys read the values.`}
        shown={shown}
        extent={extent}
        at={at}
        onMove={moveCrosshair}
        selection={selection}
        onSelect={onSelect}
        onZoom={props.onZoom}
        clock={(time) => clockSeconds(time * 1000)}
      />
      <SpokenValues lanes={lanes} at={at} />
    </figure>
  );
}

interface BackgroundLinesProps {
  ticks: readonly number[];
  shown: TimeRange;
  width: number;
  marks: readonly Mark[];
  reference: Reference | null | undefined;
}

/** The lines behind all lanes. Like all that the crosshair does not change, it is drawn again only if it changes. */
const BackgroundLines = memo(function BackgroundLines({
  ticks,
  shown,
  width,
  marks,
  reference,
}: BackgroundLinesProps) {
  return (
    <div className={`${styles.overlay} ${styles.behind}`} aria-hidden="true">
      {ticks.map((tick) => (
        <span key={tick} className={styles.grid} style={{ left: `${position(tick, shown) * 100}%` }} />
      ))}
      {[...markLines(marks, shown, width)].map(([pixel, { kind }]) => (
        <span key={pixel} className={styles.markLine} data-kind={kind} style={{ left: pixel }} />
      ))}
      {reference && <ReferenceLine reference={reference} shown={shown} width={width} />}
    </div>
  );
});

/** The room that the label of the reference needs. */
const REFERENCE_PIXELS = 330;

function ReferenceLine({
  reference,
  shown,
  width,
}: {
  reference: Reference;
  shown: TimeRange;
  width: number;
}) {
  const share = position(reference.at, shown);
  if (share <= 0 || share >= 1) return null;
  const side = share * width > REFERENCE_PIXELS ? "left" : "right";
  const fits = side === "left" || (1 - share) * width > REFERENCE_PIXELS;
  return (
    <span className={styles.reference} data-side={side} style={{ left: `${share * 100}%` }}>
      {fits && <span>{reference.label}</span>}
    </span>
  );
}

interface TimeLabelsProps {
  ticks: readonly number[];
  shown: TimeRange;
  hasSeconds: boolean;
}

const TimeLabels = memo(function TimeLabels({ ticks, shown, hasSeconds }: TimeLabelsProps) {
  const label = hasSeconds ? clockSeconds : clock;
  return (
    <div className={styles.row} aria-hidden="true">
      <span className={styles.gutter} />
      <div className={styles.times}>
        {ticks.map((tick) => (
          <span key={tick} style={{ left: `${position(tick, shown) * 100}%` }}>
            {label(tick * 1000)}
          </span>
        ))}
      </div>
    </div>
  );
});

const ValueAxis = memo(function ValueAxis({ lane }: { lane: PlotLane }) {
  const format = lane.axisFormat ?? lane.format;
  if (lane.times.length === 0) return <div className={styles.axis} />;
  return (
    <div className={styles.axis} aria-hidden="true">
      <span style={{ top: 0 }}>{lane.format(lane.max)}</span>
      {lane.height > 48 && <span style={{ top: "50%" }}>{format(lane.max / 2)}</span>}
      <span style={{ top: "100%" }}>{format(0)}</span>
    </div>
  );
});

const SPOKEN_MS = 500;

/** Announces the values under the crosshair, at most twice a second. */
function SpokenValues({ lanes, at }: { lanes: readonly Lane[]; at: number | null }) {
  const [text, setText] = useState("");
  useEffect(() => {
    if (at === null) return setText("");
    const timer = setTimeout(() => setText(spokenValues(lanes, at)), SPOKEN_MS);
    return () => clearTimeout(timer);
  }, [lanes, at]);
  return (
    <p className="hidden" aria-live="polite">
      {text}
    </p>
  );
}

function spokenValues(lanes: readonly Lane[], at: number): string {
  const values = lanes.flatMap((lane) => {
    const main = lane.kind === "plot" ? lane.layers.find(({ id }) => id === lane.main) : undefined;
    if (lane.kind !== "plot" || !main) return [];
    const value = valueAt(lane, main, at);
    return [`${lane.title} ${value === null ? "no data" : lane.format(value)}`];
  });
  return `${clockSeconds(at * 1000)}: ${values.join(", ")}`;
}
