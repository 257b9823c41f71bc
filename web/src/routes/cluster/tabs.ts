import { type ComponentType, type LazyExoticComponent, lazy } from "react";

/** The cluster that a tab shows. */
export interface ClusterTabProps {
  cluster: ShownCluster;
}

/** The facts of the cluster that every tab may need without a request of its own. */
export interface ShownCluster {
  id: string;
  number: number;
  name: string;
  isLive: boolean;
  startedAt: string;
  /** The end, or the last report of a cluster that still reports. */
  lastAt: string;
}

const ORDER = [
  "time",
  "functions",
  "workers",
  "errors",
  "logs",
  "profile",
  "code",
  "environment",
  "cost",
  "privacy",
] as const;

export type TabName = (typeof ORDER)[number];

// A tab exists if its directory of `panels/cluster` has a file `tab.tsx` with a component as default export.
const modules = import.meta.glob<{ default: ComponentType<ClusterTabProps> }>(
  "../../panels/cluster/*/tab.tsx",
);

/** Loads the scripts of all tabs. */
export async function preloadTabs(): Promise<void> {
  await Promise.allSettled(Object.values(modules).map((load) => load()));
}

export interface Tab {
  name: TabName;
  label: string;
  component: LazyExoticComponent<ComponentType<ClusterTabProps>>;
}

/** The tabs of the cluster page, in their order. The first one is shown by default. */
export const TABS: readonly Tab[] = ORDER.flatMap((name) => {
  const load = modules[`../../panels/cluster/${name}/tab.tsx`];
  return load ? [{ name, label: name.slice(0, 1).toUpperCase() + name.slice(1), component: lazy(load) }] : [];
});
