import type { IconName } from "@/ui/icon.tsx";

/** The pages of the navigation, in its order. */
export interface NavigationPage {
  to: "/$account" | "/$account/clusters" | "/$account/errors";
  label: string;
  icon: IconName;
  /** The key after `g`. */
  key: string;
}

export const PAGES: readonly NavigationPage[] = [
  { to: "/$account", label: "Overview", icon: "overview", key: "o" },
  { to: "/$account/clusters", label: "Clusters", icon: "clusters", key: "c" },
  { to: "/$account/errors", label: "Errors", icon: "errors", key: "e" },
];
