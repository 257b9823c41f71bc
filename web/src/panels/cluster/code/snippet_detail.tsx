import { ClusterCodeTextDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { duration } from "@/format/duration.ts";
import { count } from "@/format/number.ts";
import { clockSeconds } from "@/format/time.ts";
import type { ShownCluster } from "@/routes/cluster/tabs.ts";
import { useSetClusterSearch } from "@/routes/cluster/use_cluster_search.ts";
import { CopyButton } from "@/ui/copy_button.tsx";
import { Loaded, Section, Skeleton, Withheld } from "@/ui/panel.tsx";
import { type Column, Table } from "@/ui/table.tsx";
import styles from "./code.module.css";
import {
  type CodeComputation,
  type CodeLine,
  codeLines,
  linesIn,
  RUN_STATES,
  type Snippet,
} from "./snippets.ts";

interface SnippetDetailProps {
  snippet: Snippet<CodeComputation>;
  cluster: ShownCluster;
}

/** A piece of code, with the lines that called on, and its computations. */
export function SnippetDetail({ snippet, cluster }: SnippetDetailProps) {
  const setSearch = useSetClusterSearch();
  const [newest] = snippet.computations;
  const choose = ({ startedAt, endedAt }: CodeComputation) => {
    const from = Date.parse(startedAt);
    const to = Math.max(from + 1000, Date.parse(endedAt ?? cluster.lastAt));
    setSearch({ from: new Date(from).toISOString(), to: new Date(to).toISOString() });
  };
  return (
    <div className={styles.detail}>
      <h3 className="h3">
        <code className={styles.file}>{snippet.file ?? "File unknown"}</code>
      </h3>
      {snippet.hash === null || !newest ? (
        <Withheld title="The text of this code is not stored">It was not sent, or it was deleted.</Withheld>
      ) : (
        <Text computation={newest.id} hash={snippet.hash} />
      )}
      <Section title="Computations that ran it" sub="open one to choose its time on the axis" level={3}>
        <Table
          label="Computations"
          columns={columns(snippet.id)}
          rows={snippet.computations}
          rowKey={({ id }) => id}
          onOpen={choose}
          compact={(computation) => <Compact computation={computation} />}
        />
      </Section>
    </div>
  );
}

function Text({ computation, hash }: { computation: string; hash: string }) {
  const query = useAsk(ClusterCodeTextDocument, { id: computation }, { staleSeconds: 3600 });
  return (
    <Loaded name="The code" query={query} skeleton={<Skeleton rows={6} columns={2} />}>
      {({ node }) => {
        const lines = codeLines(node, hash);
        if (!lines) {
          return (
            <Withheld title="The text of this code cannot be shown">
              It was not sent, was deleted, or cannot be decrypted.
            </Withheld>
          );
        }
        return <Lines lines={lines} />;
      }}
    </Loaded>
  );
}

function Lines({ lines }: { lines: readonly CodeLine[] }) {
  const text = () => `${lines.map((line) => line.text).join("\n")}\n`;
  return (
    <div className={styles.box}>
      <div className={styles.tools}>
        <CopyButton text={text} label="Copy as text" look="ghost" />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard */}
      <pre className={styles.code} tabIndex={0}>
        {lines.map(({ number, text, isCall }) => (
          <span key={number} className={styles.line} data-call={isCall}>
            <span className={styles.number} aria-hidden="true">
              {isCall ? "▸" : ""} {number}
            </span>
            {text || " "}
            {isCall && <span className="hidden"> (called here)</span>}
            {"\n"}
          </span>
        ))}
      </pre>
    </div>
  );
}

function took({ wallSeconds, state }: CodeComputation): string {
  if (wallSeconds !== null) return duration(wallSeconds);
  return state === "RUNNING" ? "still running" : "unknown";
}

function linesText(computation: CodeComputation, id: string): string {
  return linesIn(computation, id).join(", ") || "unknown";
}

function Amount({ value, isBad = false }: { value: number | undefined; isBad?: boolean }) {
  if (value === undefined) return <span className="faint">unknown</span>;
  return <span className={value === 0 ? "faint" : isBad ? styles.failed : undefined}>{count(value)}</span>;
}

function columns(id: string): Column<CodeComputation>[] {
  return [
    {
      id: "started",
      head: "Started, UTC",
      width: "minmax(92px, 1fr)",
      cell: ({ startedAt }) => <span className="num">{clockSeconds(startedAt)}</span>,
    },
    {
      id: "state",
      head: "State",
      width: "minmax(80px, 1fr)",
      cell: ({ state }) => (
        <span className={state === "ERRED" || state === "LOST" ? styles.failed : undefined}>
          {RUN_STATES[state]}
        </span>
      ),
    },
    { id: "lines", head: "Lines", width: "minmax(60px, 1fr)", cell: (row) => linesText(row, id) },
    { id: "took", head: "Took", width: "100px", align: "end", cell: took },
    {
      id: "tasks",
      head: "Tasks",
      width: "80px",
      align: "end",
      cell: ({ totals }) => <Amount value={totals?.tasks} />,
    },
    {
      id: "erred",
      head: "Failed",
      width: "80px",
      align: "end",
      cell: ({ totals }) => <Amount value={totals?.tasksErred} isBad />,
    },
  ];
}

function Compact({ computation }: { computation: CodeComputation }) {
  return (
    <>
      <div className="truncated">
        {clockSeconds(computation.startedAt)} · {RUN_STATES[computation.state]}
      </div>
      <div className="muted small truncated">
        {took(computation)} · <Amount value={computation.totals?.tasks} />{" "}
        {computation.totals?.tasks === 1 ? "task" : "tasks"}
      </div>
    </>
  );
}
