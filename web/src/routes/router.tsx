import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
} from "@tanstack/react-router";
import { basePath } from "@/data/base.ts";
import { Defect } from "@/ui/error_boundary.tsx";
import { AccountPages } from "./account.tsx";
import { FirstAccount } from "./first_account.tsx";
import { NotFound } from "./not_found.tsx";
import { PendingPage } from "./pending_page.tsx";
import { parseSearch, stringifySearch } from "./search.ts";
import {
  clusterSearch,
  clustersSearch,
  compareSearch,
  errorsSearch,
  overviewSearch,
} from "./search_types.ts";

const root = createRootRouteWithContext<{ client: QueryClient }>()({
  component: Outlet,
  notFoundComponent: NotFound,
});

const first = createRoute({ getParentRoute: () => root, path: "/", component: FirstAccount });

const account = createRoute({
  getParentRoute: () => root,
  path: "$account",
  component: AccountPages,
});

const overview = createRoute({
  getParentRoute: () => account,
  path: "/",
  validateSearch: overviewSearch,
  component: lazyRouteComponent(() => import("./overview.tsx"), "Overview"),
});

const clusters = createRoute({
  getParentRoute: () => account,
  path: "clusters",
  validateSearch: clustersSearch,
  component: lazyRouteComponent(() => import("./clusters.tsx"), "Clusters"),
});

const errors = createRoute({
  getParentRoute: () => account,
  path: "errors",
  validateSearch: errorsSearch,
  component: lazyRouteComponent(() => import("./errors.tsx"), "Errors"),
});

const errorGroup = createRoute({
  getParentRoute: () => account,
  path: "errors/$group",
  validateSearch: errorsSearch,
  component: lazyRouteComponent(() => import("./error_group.tsx"), "ErrorGroup"),
});

const compare = createRoute({
  getParentRoute: () => account,
  path: "compare",
  validateSearch: compareSearch,
  component: lazyRouteComponent(() => import("./compare.tsx"), "Compare"),
});

const cluster = createRoute({
  getParentRoute: () => account,
  path: "clusters/$number",
  validateSearch: clusterSearch,
  component: lazyRouteComponent(() => import("./cluster/cluster.tsx"), "Cluster"),
});

const clusterTab = createRoute({
  getParentRoute: () => cluster,
  path: "$tab",
  component: lazyRouteComponent(() => import("./cluster/tab.tsx"), "ClusterTab"),
});

const clusterStart = createRoute({
  getParentRoute: () => cluster,
  path: "/",
  component: lazyRouteComponent(() => import("./cluster/tab.tsx"), "ClusterTab"),
});

const tree = root.addChildren([
  first,
  account.addChildren([
    overview,
    clusters,
    cluster.addChildren([clusterStart, clusterTab]),
    compare,
    errors,
    errorGroup,
  ]),
]);

export function createAppRouter(client: QueryClient) {
  return createRouter({
    routeTree: tree,
    basepath: basePath,
    context: { client },
    parseSearch,
    stringifySearch,
    defaultPreload: "intent",
    // The first page shows its navigation at once. `preloadPages` sets the delay of later ones.
    defaultPendingMs: 0,
    defaultPendingMinMs: 0,
    defaultPendingComponent: PendingPage,
    scrollRestoration: true,
    defaultErrorComponent: ({ error, reset }) => (
      <Defect
        name="This page"
        error={error instanceof Error ? error : new Error(String(error))}
        onRetry={reset}
      />
    ),
    defaultNotFoundComponent: NotFound,
  });
}

export type AppRouter = ReturnType<typeof createAppRouter>;

declare module "@tanstack/react-router" {
  interface Register {
    router: AppRouter;
  }
}
