import { type ClustersSearch, clustersSearch } from "@/routes/search_types.ts";

/** A list of clusters under a name. */
export interface View {
  name: string;
  search: ClustersSearch;
}

const key = (account: string) => `galvo.clusters.views.${account}`;

/** Returns the views that this browser keeps for the account. What is no view is left out. */
export function readViews(account: string): View[] {
  try {
    return parseViews(localStorage.getItem(key(account)));
  } catch {
    return [];
  }
}

export function writeViews(account: string, views: readonly View[]): void {
  localStorage.setItem(key(account), JSON.stringify(views));
}

export function parseViews(text: string | null): View[] {
  const stored: unknown = JSON.parse(text ?? "[]");
  if (!Array.isArray(stored)) return [];
  return stored.flatMap((view: { name?: unknown; search?: unknown } | null) => {
    const { name, search } = view ?? {};
    if (typeof name !== "string" || typeof search !== "object" || search === null) return [];
    return [{ name, search: clustersSearch(search as Record<string, unknown>) }];
  });
}
