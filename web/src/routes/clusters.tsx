import { useSearch } from "@tanstack/react-router";
import { ClustersPage } from "@/panels/clusters/clusters_page.tsx";
import { Page } from "@/panels/shell/page.tsx";

/** The clusters of the account. */
export function Clusters() {
  const search = useSearch({ from: "/$account/clusters" });
  return (
    <Page title="Clusters">
      <ClustersPage search={search} />
    </Page>
  );
}
