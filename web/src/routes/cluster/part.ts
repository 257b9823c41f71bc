import { useSearch } from "@tanstack/react-router";
import { createContext, useContext } from "react";
import type { ClusterSearch } from "../search_types.ts";

/** The state of a playback of the run. */
export interface Played {
  /** The time up to which the tabs show the run. Null if it is not played back. */
  to: string | null;
  isPlaying: boolean;
}

export const NOT_PLAYED: Played = { to: null, isPlaying: false };

interface PlayedState extends Played {
  set(played: Played): void;
}

export const PlayedContext = createContext<PlayedState>({ ...NOT_PLAYED, set: () => {} });

export type Part = Pick<ClusterSearch, "from" | "to">;

/**
 * Returns the part of the run that the tabs show: the chosen one, up to where a playback has come. Without times
 * it is the whole run.
 */
export function partOf(chosen: Part, startedAt: string, playedTo: string | null): Part {
  if (playedTo === null) return { from: chosen.from, to: chosen.to };
  const from = chosen.from ?? startedAt;
  // An empty part would be the whole run.
  return { from, to: playedTo > from ? playedTo : new Date(Date.parse(from) + 1).toISOString() };
}

/** Returns the part of the run for a tab. With `isSlow`, a playback counts only while it pauses. */
export function usePart(startedAt: string, isSlow = false): Part {
  const search = useSearch({ from: "/$account/clusters/$number" });
  const { to, isPlaying } = useContext(PlayedContext);
  return partOf(search, startedAt, isSlow && isPlaying ? null : to);
}
