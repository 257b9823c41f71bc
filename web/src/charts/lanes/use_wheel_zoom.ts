import { type RefObject, useEffect, useRef } from "react";
import { timeAt } from "./scale.ts";
import type { TimeRange } from "./types.ts";

/** The factor of a turn by one notch of a wheel, and the pixels that such a turn reports. */
const FACTOR = 1.5;
const NOTCH_PIXELS = 100;
/** No measurement is closer to the next one. */
const LEAST_SECONDS = 2;
/** The time for which turns are collected, so that a touchpad does not ask for each pixel. */
const COLLECTED_MS = 80;

/** Returns the range after a zoom around a time. It never leaves the extent. */
export function zoomed(shown: TimeRange, extent: TimeRange, around: number, factor: number): TimeRange {
  const width = shown.to - shown.from;
  const least = Math.min(LEAST_SECONDS, width);
  const ratio = Math.max(factor, least / width);
  return {
    from: Math.max(extent.from, around - (around - shown.from) * ratio),
    to: Math.min(extent.to, around + (shown.to - around) * ratio),
  };
}

/** Returns the factor of a turn of the wheel. Some mice report lines instead of pixels. */
export function factorOf({ deltaY, deltaMode }: Pick<WheelEvent, "deltaY" | "deltaMode">): number {
  const pixels = deltaMode === 0 ? deltaY : deltaY * 33;
  const notches = Math.max(-1, Math.min(1, pixels / NOTCH_PIXELS));
  return FACTOR ** notches;
}

interface WheelZoom {
  shown: TimeRange;
  extent: TimeRange;
  /** Called with null for the whole extent. */
  onZoom: ((range: TimeRange | null) => void) | undefined;
}

/**
 * Zooms by the wheel with Ctrl, which is also what two fingers on a touchpad report, around the time of the axis in
 * `ref`. It does so anywhere on the chart around it: beside the axis, around its nearer end.
 */
export function useWheelZoom(ref: RefObject<HTMLElement | null>, { shown, extent, onZoom }: WheelZoom): void {
  const latest = useRef({ shown, extent, onZoom });
  latest.current = { shown, extent, onZoom };
  const isEnabled = onZoom !== undefined;
  const wanted = useRef<TimeRange | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);

  // biome-ignore lint/correctness/useExhaustiveDependencies: turns that were collected end as the shown time changes
  useEffect(() => {
    if (timer.current === undefined) wanted.current = null;
  }, [shown]);
  useEffect(() => {
    const element = ref.current;
    const chart = element?.parentElement;
    if (!chart || !isEnabled) return;
    const commit = () => {
      timer.current = undefined;
      const { extent: all, onZoom: zoom } = latest.current;
      if (!wanted.current) return;
      const isAll = wanted.current.from <= all.from && wanted.current.to >= all.to;
      zoom?.(isAll ? null : wanted.current);
    };
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey) return;
      // Otherwise the browser makes the whole page larger.
      event.preventDefault();
      const box = element.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      const base = wanted.current ?? latest.current.shown;
      wanted.current = zoomed(base, latest.current.extent, timeAt(share, base), factorOf(event));
      timer.current ??= setTimeout(commit, COLLECTED_MS);
    };
    // React listens passively, which cannot keep the browser from zooming.
    chart.addEventListener("wheel", onWheel, { passive: false });
    return () => {
      chart.removeEventListener("wheel", onWheel);
      clearTimeout(timer.current);
      timer.current = undefined;
    };
  }, [ref, isEnabled]);
}
