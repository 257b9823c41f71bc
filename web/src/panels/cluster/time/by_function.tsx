import { useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { ClusterTimeDocument, ClusterTimeVersusDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { threeDigits } from "@/format/number.ts";
import { useBaseline } from "@/panels/cluster/header/baseline.ts";
import { SheetTable } from "@/panels/take_away/sheet_table.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { usePart } from "@/routes/cluster/part.ts";
import { useSetClusterSearch } from "@/routes/cluster/use_cluster_search.ts";
import { Loaded, QueryState, Section, Withheld } from "@/ui/panel.tsx";
import { Segmented } from "@/ui/segmented.tsx";
import { FunctionRows } from "./function_rows.tsx";
import { MEASURES, type Measure } from "./measure.ts";
import { fineSheet } from "./spread.ts";

const ROUTE = "/$account/clusters/$number";

/** The time of tasks by function and activity, as Dask's fine performance metrics have it. */
export function ByFunction({ id, startedAt }: { id: string; startedAt: string }) {
  const search = useSearch({ from: ROUTE });
  const { from, to } = usePart(startedAt);
  const set = useSetClusterSearch();
  const measure: Measure = MEASURES.find(({ value }) => value === search.by)?.value ?? "seconds";
  const [isTable, setTable] = useState(false);
  const variables = { clusters: [id], from: from ?? null, to: to ?? null, unit: measure };
  const query = useAsk(ClusterTimeDocument, variables, { keepsPrevious: true });
  const baseline = useBaseline(id);
  // A part of this run is no part of the other one.
  const isCompared = baseline !== null && !from;
  const versus = useAsk(
    ClusterTimeVersusDocument,
    { base: baseline?.id ?? "", head: id, unit: measure },
    { enabled: isCompared },
  );
  const comparison = isCompared && versus.data?.data.viewer.account.compare;
  const answer = query.data?.data.viewer.account.fineMetrics;
  const sheet = answer && fineSheet(answer);
  return (
    <Section
      level={3}
      title="By function"
      sub={subtitle(from, comparison ? baseline.number : null)}
      actions={
        <>
          <Segmented
            label="Measure"
            options={MEASURES}
            value={measure}
            onChange={(by) => set({ by: by === "seconds" ? undefined : by })}
          />
          {sheet && sheet.rows.length > 0 && (
            <TakeAway
              name="time-by-function"
              document={ClusterTimeDocument}
              variables={variables}
              sheet={sheet}
              isTable={isTable}
              onTable={setTable}
            />
          )}
        </>
      }
    >
      {isCompared && <QueryState name="The comparison with the last good run" query={versus} />}
      <Loaded name="The time of functions" query={query}>
        {({ viewer }) => {
          const table = viewer.account.fineMetrics;
          if (!table) return null;
          if (table.clustersWithoutMetrics > 0 && table.rows.length === 0) {
            return (
              <Withheld title="Dask did not report fine metrics">They need Dask 2023.7 or newer.</Withheld>
            );
          }
          if (isTable && sheet && sheet.rows.length > 0)
            return <SheetTable label="Time by function" sheet={sheet} format={threeDigits} />;
          return (
            <FunctionRows
              table={table}
              compared={comparison ? { comparison, number: baseline.number } : null}
              measure={measure}
              open={search.open}
              onOpen={(open) => set({ open: open === search.open ? undefined : open })}
            />
          );
        }}
      </Loaded>
    </Section>
  );
}

function subtitle(from: string | undefined, baseline: number | null): string {
  if (from) return "spans whose tasks arrived in the chosen part";
  return baseline === null ? "tasks only" : `tasks only · the mark is the last good run, #${baseline}`;
}
