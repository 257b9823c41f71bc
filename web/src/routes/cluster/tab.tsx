import { useParams } from "@tanstack/react-router";
import { Suspense, useContext } from "react";
import { ErrorBoundary } from "@/ui/error_boundary.tsx";
import { Skeleton } from "@/ui/panel.tsx";
import { NotFound } from "../not_found.tsx";
import { ShownClusterContext } from "./shown_cluster.ts";
import { TABS } from "./tabs.ts";

/** The chosen tab of the cluster page. */
export function ClusterTab() {
  const { tab: name } = useParams({ strict: false });
  const cluster = useContext(ShownClusterContext);
  const tab = name === undefined ? TABS[0] : TABS.find((known) => known.name === name);
  if (!tab) return <NotFound />;
  if (!cluster) return null;
  return (
    <ErrorBoundary name="This tab" key={tab.name}>
      <Suspense fallback={<Skeleton />}>
        <tab.component cluster={cluster} />
      </Suspense>
    </ErrorBoundary>
  );
}
