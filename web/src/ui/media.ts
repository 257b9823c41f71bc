import { useCallback, useSyncExternalStore } from "react";

/** Returns true while the media query holds, such as `(max-width: 640px)`. */
export function useMedia(query: string): boolean {
  const subscribe = useCallback(
    (listener: () => void) => {
      const list = matchMedia(query);
      list.addEventListener("change", listener);
      return () => list.removeEventListener("change", listener);
    },
    [query],
  );
  return useSyncExternalStore(subscribe, () => matchMedia(query).matches);
}

/** Returns true on narrow screens, such as those of phones. */
export function useIsNarrow(): boolean {
  return useMedia("(max-width: 640px)");
}
