import { useSearch } from "@tanstack/react-router";
import { Findings } from "@/panels/cluster/findings/findings.tsx";
import type { ClusterTabProps } from "@/routes/cluster/tabs.ts";
import { useSetClusterSearch } from "@/routes/cluster/use_cluster_search.ts";
import { ByFunction } from "./by_function.tsx";
import { Causes } from "./causes.tsx";
import styles from "./time.module.css";

const ROUTE = "/$account/clusters/$number";

/** Where the time of the threads went. */
export default function TimeTab({ cluster }: ClusterTabProps) {
  const { unit } = useSearch({ from: ROUTE });
  const setSearch = useSetClusterSearch();
  const setUnit = (next: string) => setSearch({ unit: next === "time" ? undefined : next });
  return (
    <div className={styles.columns}>
      <div>
        <Causes id={cluster.id} unit={unit ?? "time"} onUnit={setUnit} />
        <ByFunction id={cluster.id} startedAt={cluster.startedAt} />
      </div>
      <Findings cluster={cluster} />
    </div>
  );
}
