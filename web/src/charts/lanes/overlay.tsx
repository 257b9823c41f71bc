import { type KeyboardEvent, type PointerEvent, useRef, useState } from "react";
import styles from "./lanes.module.css";
import { position, timeAt } from "./scale.ts";
import type { TimeRange } from "./types.ts";
import { useWheelZoom } from "./use_wheel_zoom.ts";

interface OverlayProps {
  label: string;
  shown: TimeRange;
  extent: TimeRange;
  at: number | null;
  onMove(at: number | null): void;
  selection: TimeRange | null;
  onSelect(selection: TimeRange | null): void;
  onZoom: ((range: TimeRange | null) => void) | undefined;
  clock(at: number): string;
}

const DRAG_PIXELS = 4;
const KEY_STEPS = 100;

const clamp = (value: number) => Math.min(1, Math.max(0, value));

/**
 * The crosshair and the brush over all lanes. Arrow keys move the crosshair, with Shift they brush. The wheel zooms
 * with Ctrl.
 */
export function Overlay(props: OverlayProps) {
  const { label, shown, extent, at, onMove, selection, onSelect, onZoom, clock } = props;
  const box = useRef<HTMLDivElement>(null);
  useWheelZoom(box, { shown, extent, onZoom });
  const start = useRef<{ x: number; share: number } | null>(null);
  const [brush, setBrush] = useState<TimeRange | null>(null);
  const shareOf = (event: PointerEvent) => {
    const box = event.currentTarget.getBoundingClientRect();
    return clamp((event.clientX - box.left) / box.width);
  };
  const rangeTo = (share: number, from: number): TimeRange => ({
    from: timeAt(Math.min(from, share), shown),
    to: timeAt(Math.max(from, share), shown),
  });
  const onPointerMove = (event: PointerEvent) => {
    const share = shareOf(event);
    onMove(timeAt(share, shown));
    if (start.current && Math.abs(event.clientX - start.current.x) > DRAG_PIXELS) {
      setBrush(rangeTo(share, start.current.share));
    }
  };
  const onPointerDown = (event: PointerEvent) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    event.currentTarget.setPointerCapture(event.pointerId);
    start.current = { x: event.clientX, share: shareOf(event) };
  };
  const onPointerUp = () => {
    if (brush) onSelect(brush);
    start.current = null;
    setBrush(null);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape" && selection) {
      event.preventDefault();
      return onSelect(null);
    }
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const width = (shown.to - shown.from) / KEY_STEPS;
    const from = at ?? shown.from;
    const next = Math.min(shown.to, Math.max(shown.from, from + step * width));
    onMove(next);
    if (event.shiftKey) onSelect(extended(selection, from, next));
  };
  const band = brush ?? (selection && !covers(selection, shown) ? selection : null);
  return (
    <div
      ref={box}
      role="slider"
      tabIndex={0}
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={at === null ? 0 : Math.round(position(at, shown) * 100)}
      aria-valuetext={at === null ? "no time chosen" : clock(at)}
      className={`${styles.overlay} ${styles.front}`}
      onPointerMove={onPointerMove}
      onPointerDown={onPointerDown}
      onPointerUp={onPointerUp}
      onPointerLeave={() => !start.current && onMove(null)}
      onDoubleClick={() => onSelect(null)}
      onKeyDown={onKeyDown}
      onBlur={() => onMove(null)}
    >
      {band && (
        <span
          className={styles.selection}
          style={{
            left: `${clamp(position(band.from, shown)) * 100}%`,
            width: `${(clamp(position(band.to, shown)) - clamp(position(band.from, shown))) * 100}%`,
          }}
        />
      )}
      {at !== null && (
        <span className={styles.crosshair} style={{ transform: `translateX(${position(at, shown) * 100}%)` }}>
          <span>{clock(at)}</span>
        </span>
      )}
    </div>
  );
}

function covers(selection: TimeRange, shown: TimeRange): boolean {
  return selection.from <= shown.from && selection.to >= shown.to;
}

/** Returns the selection after the crosshair has moved from one time to another. */
export function extended(selection: TimeRange | null, from: number, to: number): TimeRange {
  if (!selection) return { from: Math.min(from, to), to: Math.max(from, to) };
  const isEnd = Math.abs(from - selection.to) <= Math.abs(from - selection.from);
  const other = isEnd ? selection.from : selection.to;
  return { from: Math.min(other, to), to: Math.max(other, to) };
}
