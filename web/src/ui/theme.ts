import { useSyncExternalStore } from "react";

export type Theme = "light" | "dark" | "system";

const KEY = "galvo.theme";
const listeners = new Set<() => void>();
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
darkSystem.addEventListener("change", notify);

function notify(): void {
  for (const listener of listeners) listener();
}

export function theme(): Theme {
  const stored = localStorage.getItem(KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function setTheme(next: Theme): void {
  if (next === "system") {
    localStorage.removeItem(KEY);
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem(KEY, next);
    document.documentElement.dataset.theme = next;
  }
  notify();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, theme);
}

/** Returns the colours that are shown, for canvases: they read the tokens again when this changes. */
export function useShownTheme(): "light" | "dark" {
  return useSyncExternalStore(subscribe, () => {
    const chosen = theme();
    return chosen === "system" ? (darkSystem.matches ? "dark" : "light") : chosen;
  });
}
