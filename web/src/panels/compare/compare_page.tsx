import { Link } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { type Difference, Waterfall } from "@/charts/waterfall/waterfall.tsx";
import { useAccount } from "@/data/account.ts";
import {
  CompareDocument,
  type ComparedClusterFragment,
  ComparedClustersDocument,
} from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { duration, threadTimeInWords, threadTimes } from "@/format/duration.ts";
import { counted, signed } from "@/format/number.ts";
import { dayAndClock } from "@/format/time.ts";
import { splitHeadline } from "@/panels/cluster/header/answers.ts";
import { CopyLink } from "@/panels/take_away/copy_link.tsx";
import { SheetTable } from "@/panels/take_away/sheet_table.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import type { CompareSearch } from "@/routes/search_types.ts";
import { IconButton } from "@/ui/button.tsx";
import { ErrorBoundary } from "@/ui/error_boundary.tsx";
import { Empty, Loaded, Section, Skeleton, Withheld } from "@/ui/panel.tsx";
import { Segmented } from "@/ui/segmented.tsx";
import { STATE_NAMES } from "@/ui/state.tsx";
import { VerdictMark } from "@/ui/verdict.tsx";
import styles from "./compare.module.css";
import { byActivity, byFunction, type Comparison, changesOf } from "./differences.ts";
import { Parts } from "./parts.tsx";

const ComparedProfile = lazy(() => import("./compared_profile.tsx"));

interface ComparePageProps {
  search: CompareSearch;
  onSearch(search: CompareSearch): void;
}

/** Two clusters beside one another: where the second one spent more or less thread time, and what else differs. */
export function ComparePage({ search, onSearch }: ComparePageProps) {
  const { a, b } = search;
  if (a === undefined || b === undefined) return <NoChoice />;
  return <Compared a={a} b={b} search={search} onSearch={onSearch} />;
}

function NoChoice() {
  const account = useAccount();
  return (
    <>
      <h1 className="h1">Compare</h1>
      <Empty title="Two clusters are compared">
        Select two in the{" "}
        <Link className="link" to="/$account/clusters" params={{ account }}>
          list of clusters
        </Link>{" "}
        and press Compare, or <kbd>c</kbd>.
      </Empty>
    </>
  );
}

interface ComparedProps extends ComparePageProps {
  a: string;
  b: string;
}

function Compared({ a, b, search, onSearch }: ComparedProps) {
  const variables = { base: a, head: b };
  const clusters = useAsk(ComparedClustersDocument, variables);
  const comparison = useAsk(CompareDocument, variables);
  return (
    <>
      {comparison.isLoadingError && <h1 className="h1">Compare</h1>}
      <Loaded name="The clusters" query={clusters} skeleton={<Skeleton rows={1} columns={4} />}>
        {({ base, head }) => (
          <div className={styles.pair}>
            <ClusterCard letter="A" number={a} cluster={base} />
            <IconButton
              icon="compare"
              label="Swap A and B"
              onClick={() => onSearch({ ...search, a: b, b: a })}
            />
            <ClusterCard letter="B" number={b} cluster={head} />
            <CopyLink />
          </div>
        )}
      </Loaded>
      <Loaded name="The comparison" query={comparison} skeleton={<Skeleton rows={8} columns={6} />}>
        {({ viewer }) => {
          const compared = viewer.account.compare;
          if (!compared) return <h1 className="h1">Compare</h1>;
          return <Result comparison={compared} variables={variables} search={search} onSearch={onSearch} />;
        }}
      </Loaded>
      <ErrorBoundary name="The profiles">
        <Suspense fallback={<Skeleton rows={6} columns={4} />}>
          <ComparedProfile base={a} head={b} />
        </Suspense>
      </ErrorBoundary>
    </>
  );
}

interface ClusterCardProps {
  letter: string;
  number: string;
  cluster: ComparedClusterFragment | null;
}

function ClusterCard({ letter, number, cluster }: ClusterCardProps) {
  const account = useAccount();
  if (!cluster)
    return (
      <span className={styles.cluster}>
        <span className={styles.letter}>{letter}</span>
        <span>There is no cluster #{number}</span>
      </span>
    );
  const failed = cluster.totals.tasksErred;
  const facts = [
    dayAndClock(cluster.startedAt),
    duration(cluster.durationSeconds),
    cluster.user?.name ?? "a user who left",
    STATE_NAMES[cluster.state],
    ...(failed > 0 ? [`${counted(failed, "task")} failed`] : []),
  ];
  return (
    <Link
      className={styles.cluster}
      to="/$account/clusters/$number"
      params={{ account, number: String(cluster.number) }}
    >
      <span className={styles.letter}>{letter}</span>
      <div>
        <div className="truncated">
          <strong>{cluster.name ?? cluster.schedulerId}</strong>{" "}
          <span className="faint">#{cluster.number}</span>
        </div>
        <div className="faint small truncated">{facts.join(" · ")}</div>
      </div>
    </Link>
  );
}

interface ResultProps extends ComparePageProps {
  comparison: Comparison;
  variables: { base: string; head: string };
}

function Result({ comparison, variables, search, onSearch }: ResultProps) {
  const { verdict, base, head } = comparison;
  const { head: finding, rest } = splitHeadline(
    verdict?.headline ?? `B spent ${threadTimeInWords(head.total)}, A ${threadTimeInWords(base.total)}`,
  );
  const unmeasured = [["A", base] as const, ["B", head] as const].filter(
    ([, work]) => work.clustersWithoutMetrics > 0 || work.clustersWithoutThreads > 0,
  );
  return (
    <>
      <div className={styles.verdict}>
        <VerdictMark verdict={verdict?.verdict ?? "UNKNOWN"} />
        <div>
          <h1 className="h1">{finding}</h1>
          {rest && <p className="muted">{rest}</p>}
        </div>
      </div>
      {unmeasured.map(([letter]) => (
        <Withheld key={letter} title={`Not all time of ${letter} was measured`}>
          Its release of Dask does not report activities, or its threads are unknown. That time is shown as
          unaccounted.
        </Withheld>
      ))}
      <div className={styles.columns}>
        <DifferenceBars comparison={comparison} variables={variables} search={search} onSearch={onSearch} />
        <Changes environment={comparison.environment} />
      </div>
      <Parts comparison={comparison} variables={variables} />
    </>
  );
}

const DIMENSIONS = [
  { value: "activity", label: "Activity" },
  { value: "function", label: "Function" },
] as const;

/** The difference by activity or function. The bars add up to the whole difference. */
function DifferenceBars({ comparison, variables, search, onSearch }: ResultProps) {
  const [isTable, setTable] = useState(false);
  const { base, head } = comparison;
  const by = search.by === "function" ? "function" : "activity";
  const parts: Difference[] = by === "function" ? byFunction(comparison) : byActivity(comparison);
  const times = threadTimes(Math.max(0, ...parts.map(({ delta }) => Math.abs(delta))));
  const format = (value: number) => signed(value, times);
  // The bar of the whole names the unit.
  const bare = (value: number) => format(value).replace(/\s\D+$/, "");
  const from = threadTimes(Math.max(base.total, head.total))(base.total);
  const title = `From ${from} to ${threadTimeInWords(head.total)}`;
  const sheet = {
    head: [by, "difference, thread-seconds"],
    rows: [...parts.map(({ label, delta }) => [label, delta]), ["B − A", comparison.delta]],
  };
  return (
    <Section
      title={title}
      sub="while A and B had work"
      actions={
        <>
          <Segmented
            label="Dimension"
            options={DIMENSIONS}
            value={by}
            onChange={(next) => {
              const { by: _, ...others } = search;
              onSearch(next === "activity" ? others : { ...others, by: next });
            }}
          />
          <TakeAway
            name={`difference-by-${by}`}
            document={CompareDocument}
            variables={variables}
            sheet={sheet}
            isTable={isTable}
            onTable={setTable}
          />
        </>
      }
    >
      {parts.length === 0 ? (
        <Empty title="Both spent the same thread time on everything" />
      ) : isTable ? (
        <SheetTable label={title} sheet={sheet} format={format} />
      ) : (
        <Waterfall label={title} parts={parts} totalLabel="B − A" format={format} bare={bare} />
      )}
    </Section>
  );
}

/** The differences of the software and of the size. */
function Changes({ environment }: { environment: Comparison["environment"] }) {
  const changes = changesOf(environment);
  return (
    <Section
      title={changes.length === 0 ? "Nothing else changed" : `${counted(changes.length, "thing")} changed`}
    >
      <ul className={styles.changes}>
        {changes.map(({ name, from, to }) => (
          <li key={name}>
            <strong>{name}</strong>
            <span className="muted">{from}</span>
            <span>→ {to}</span>
          </li>
        ))}
      </ul>
      {!environment.known && (
        <Withheld title="The packages of A or B are unknown">They were not reported.</Withheld>
      )}
      {environment.codeChanged === null && (
        <p className={styles.note}>A or B reported no code, so it is unknown whether it differs.</p>
      )}
      {changes.length === 0 && environment.known && (
        <p className={styles.note}>Python, all packages, the machines and the size are the same.</p>
      )}
    </Section>
  );
}
