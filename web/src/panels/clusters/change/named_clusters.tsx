import type { ReactNode } from "react";
import { Table } from "@/ui/table.tsx";
import { State } from "../row_state.tsx";
import { type ChangedRow, clusterName, shortNumber } from "../rows.ts";
import styles from "./change.module.css";
import type { Outcome } from "./changes.ts";

interface NamedClustersProps<Changed> {
  rows: readonly Changed[];
  outcomes: readonly Outcome[];
  fact: { head: string; cell(row: Changed): ReactNode };
}

/** The clusters that a dialog changes, with their users and what became of them. */
export function NamedClusters<Changed extends ChangedRow>({
  rows,
  outcomes,
  fact,
}: NamedClustersProps<Changed>) {
  return (
    <div className={styles.list}>
      <Table
        label="Clusters"
        rows={rows}
        rowKey={(row) => row.id}
        columns={[
          {
            id: "name",
            head: "Cluster",
            width: "minmax(140px, 2fr)",
            cell: (row) => `${clusterName(row)} ${shortNumber(row.number)}`,
          },
          { id: "state", head: "State", width: "132px", cell: (row) => <State row={row} /> },
          { id: "user", head: "User", width: "minmax(70px, 1fr)", cell: (row) => row.user?.name ?? "left" },
          { id: "fact", head: fact.head, width: "minmax(110px, 1fr)", cell: fact.cell },
          {
            id: "outcome",
            head: <span className="hidden">Outcome</span>,
            width: "64px",
            cell: (row) => {
              const outcome = outcomes.find((one) => one.row.id === row.id);
              return outcome ? (outcome.refusal === null ? "Done" : "Refused") : "";
            },
          },
        ]}
      />
    </div>
  );
}
