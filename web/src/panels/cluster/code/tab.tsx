import { useSearch } from "@tanstack/react-router";
import { ClusterCodeDocument, type ClusterCodeQuery } from "@/data/gql/graphql.ts";
import { type Asked, useAskPages } from "@/data/queries.ts";
import { count, counted } from "@/format/number.ts";
import { clockSeconds } from "@/format/time.ts";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { usePart } from "@/routes/cluster/part.ts";
import type { ClusterTabProps } from "@/routes/cluster/tabs.ts";
import { useSetClusterSearch } from "@/routes/cluster/use_cluster_search.ts";
import { Button } from "@/ui/button.tsx";
import { Empty, Loaded, Section, Skeleton } from "@/ui/panel.tsx";
import { Absent, Missing } from "../receipts/absent.tsx";
import { absence, missing, receiptOf } from "../receipts/receipts.ts";
import styles from "./code.module.css";
import { SnippetDetail } from "./snippet_detail.tsx";
import {
  type CodeComputation,
  linesIn,
  placeText,
  type Snippet,
  snippetsOf,
  withoutCode,
} from "./snippets.ts";

const ROUTE = "/$account/clusters/$number";

const COMPUTATIONS = { one: "computation", many: "computations", setting: null };
const TASKS = { one: "record of tasks", many: "records of tasks", setting: null };
const CODE = { one: "piece of code", many: "pieces of code", setting: null };

/** The code that called Dask, and the computations that came from it. */
export default function CodeTab({ cluster }: ClusterTabProps) {
  const { open } = useSearch({ from: ROUTE });
  const { from, to } = usePart(cluster.startedAt);
  const setSearch = useSetClusterSearch();
  const variables = { id: cluster.id };
  const query = useAskPages(ClusterCodeDocument, variables, (data: ClusterCodeQuery) => {
    const info = data.cluster?.computations.pageInfo;
    return info?.hasNextPage ? info.endCursor : null;
  });
  const pages = query.data?.pages ?? [];
  const computations = pages.flatMap(({ data }) => data.cluster?.computations.nodes ?? []);
  const period = from && to ? { from, to } : null;
  const snippets = snippetsOf(computations, period);
  const chosen = snippets.find(({ id }) => id === open) ?? snippets[0];
  const withErrors = pages.find(({ errors }) => errors.length > 0);
  const first = { ...query, data: withErrors ?? pages[0] } as unknown as Asked<ClusterCodeQuery>;
  return (
    <Loaded name="The code" query={first} skeleton={<Skeleton rows={6} columns={3} />}>
      {({ cluster: known }) => {
        if (!known) return null;
        const total = known.computations.totalCount;
        if (total === 0) return <NoComputations known={known} />;
        const more = query.hasNextPage && (
          <Button size="small" disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
            {query.isFetchingNextPage ? "Loading…" : "Load 50 older computations"}
          </Button>
        );
        if (!computations.some(({ code }) => code.flat().length > 0)) {
          return (
            <>
              <Absent absence={withoutCode(receiptOf(known, "CODE"), computations.length)} />
              {more}
            </>
          );
        }
        return (
          <Section
            title={`${counted(snippets.length, "piece")} of code called Dask${period ? " in the chosen part" : ""}`}
            sub={`in ${count(computations.length)} of ${counted(total, "computation")}, the newest first`}
            actions={
              <TakeAway
                name="code"
                document={ClusterCodeDocument}
                variables={variables}
                sheet={sheet(snippets)}
              />
            }
          >
            <Missing sentences={lost(known)} />
            {chosen ? (
              <div className={styles.columns}>
                <div>
                  <List snippets={snippets} chosen={chosen.id} onChoose={(id) => setSearch({ open: id })} />
                  {more && <p>{more}</p>}
                </div>
                <SnippetDetail key={chosen.id} snippet={chosen} cluster={cluster} />
              </div>
            ) : (
              <Empty title="No computation with code ran in the chosen part">
                {count(computations.length)} computations are loaded. Clear the choice to see them. {more}
              </Empty>
            )}
          </Section>
        );
      }}
    </Loaded>
  );
}

type Known = NonNullable<ClusterCodeQuery["cluster"]>;

function lost(known: Known): string[] {
  return [
    ...missing(undefined, known.dropped.computations, COMPUTATIONS),
    ...missing(receiptOf(known, "CODE"), known.dropped.code, CODE),
  ];
}

function NoComputations({ known }: { known: Known }) {
  const tasks = receiptOf(known, "TASKS");
  const isKnown = tasks?.accepted === true && tasks.withheld === 0 && known.dropped.computations === 0;
  if (isKnown) return <Empty title="No computation was submitted" />;
  return (
    <>
      <Absent absence={absence(tasks, TASKS)} />
      <Missing sentences={missing(undefined, known.dropped.computations, COMPUTATIONS)} />
    </>
  );
}

function sheet(snippets: readonly Snippet<CodeComputation>[]) {
  return {
    head: ["file", "lines", "hash", "computation started", "state", "tasks", "tasks erred"],
    rows: snippets.flatMap((snippet) =>
      snippet.computations.map(
        (computation) =>
          [
            snippet.file,
            linesIn(computation, snippet.id).join(" "),
            snippet.hash,
            computation.startedAt,
            computation.state,
            computation.totals?.tasks ?? null,
            computation.totals?.tasksErred ?? null,
          ] as const,
      ),
    ),
  };
}

interface ListProps {
  snippets: readonly Snippet<CodeComputation>[];
  chosen: string;
  onChoose(id: string): void;
}

function List({ snippets, chosen, onChoose }: ListProps) {
  return (
    <ul className={styles.list} aria-label="Pieces of code">
      {snippets.map(({ id, file, line, computations }) => (
        <li key={id}>
          <button
            type="button"
            className={styles.piece}
            aria-current={id === chosen ? "true" : undefined}
            title={file ?? undefined}
            onClick={() => onChoose(id)}
          >
            <code className="truncated">{placeText({ file, line })}</code>
            <span className="muted small">
              {counted(computations.length, "computation")}, last{" "}
              {clockSeconds(computations[0]?.startedAt ?? "")}
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}
