import { useEffect, useRef } from "react";
import type { TimeRange } from "./types.ts";

/** The seconds of the axis that pass in a second. */
const SPEED = 60;
/** The least seconds that a playback takes, so that a short run can be followed. */
const LEAST_SECONDS = 10;
const STEP_MS = 100;

/** Returns the seconds of the axis by which a step moves the crosshair. */
export function stepSeconds(shown: TimeRange): number {
  const speed = Math.min(SPEED, (shown.to - shown.from) / LEAST_SECONDS);
  return (speed * STEP_MS) / 1000;
}

interface Playback {
  isPlaying: boolean;
  shown: TimeRange;
  /** The time of the crosshair. */
  at: number | null;
  onMove(at: number): void;
  /** Called at the end of the axis. */
  onEnd(): void;
}

/** Moves the crosshair through the shown time: from where it is, or from the start. */
export function usePlayback(playback: Playback): void {
  const latest = useRef(playback);
  latest.current = playback;
  const { isPlaying } = playback;
  const { from, to } = playback.shown;
  useEffect(() => {
    if (!isPlaying) return;
    const step = stepSeconds({ from, to });
    const { at } = latest.current;
    let time = at === null || at < from || at >= to ? from : at;
    latest.current.onMove(time);
    const timer = setInterval(() => {
      time = Math.min(to, time + step);
      latest.current.onMove(time);
      if (time === to) latest.current.onEnd();
    }, STEP_MS);
    return () => clearInterval(timer);
  }, [isPlaying, from, to]);
}
