import { createContext } from "react";
import type { ShownCluster } from "./tabs.ts";

/** The cluster of the page. Null until its header has loaded. */
export const ShownClusterContext = createContext<ShownCluster | null>(null);
