import { StackedBar } from "@/charts/bars/stacked_bar.tsx";
import { ClusterFunctionsDocument, type ClusterFunctionsQuery } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { bytes } from "@/format/bytes.ts";
import { threadTimeInWords, threadTimes } from "@/format/duration.ts";
import { costText } from "@/format/money.ts";
import { count, counted } from "@/format/number.ts";
import type { Sheet } from "@/panels/take_away/csv.ts";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import type { ClusterTabProps } from "@/routes/cluster/tabs.ts";
import { Empty, Loaded, Section } from "@/ui/panel.tsx";
import { type Column, Table } from "@/ui/table.tsx";
import styles from "./functions.module.css";

/** The `first` of the document. */
const MOST = 200;

type Row = NonNullable<ClusterFunctionsQuery["cluster"]>["functions"][number];

/** The functions of the cluster, the longest compute time first. */
export default function FunctionsTab({ cluster }: ClusterTabProps) {
  const variables = { id: cluster.id };
  const query = useAsk(ClusterFunctionsDocument, variables);
  const loaded = query.data?.data.cluster?.functions ?? [];
  return (
    <Section
      title={title(loaded)}
      actions={
        loaded.length > 0 && (
          <TakeAway
            name="functions"
            document={ClusterFunctionsDocument}
            variables={variables}
            sheet={sheet(loaded)}
          />
        )
      }
    >
      <Loaded name="The functions" query={query}>
        {(data) => {
          const rows = data.cluster?.functions ?? [];
          if (rows.length === 0) return <Empty title="No task has finished" />;
          const largest = rows[0]?.computeSeconds ?? 0;
          return (
            <Table
              label="Functions"
              columns={columns(threadTimes(largest), largest, rows)}
              hasSums
              rows={rows}
              rowKey={(row) => row.prefix}
              foot={rows.length === MOST ? `The ${MOST} functions with the longest compute time.` : undefined}
            />
          );
        }}
      </Loaded>
    </Section>
  );
}

/** Returns the finding, with the sum of what is listed. */
function title(rows: readonly Row[]): string {
  if (rows.length === 0) return "Functions";
  const isAll = rows.length < MOST;
  const seconds = rows.reduce((sum, { computeSeconds }) => sum + computeSeconds, 0);
  return `${isAll ? "" : "The first "}${counted(rows.length, "function")} computed ${threadTimeInWords(seconds)}`;
}

function sheet(rows: readonly Row[]): Sheet {
  // Workers may have prices in several currencies, and none.
  const currencies = [...new Set(rows.flatMap(({ costs }) => costs.map(({ currency }) => currency)))];
  return {
    head: [
      "function",
      "compute time, s",
      "fetching inputs, s",
      "tasks",
      "failed",
      "results, B",
      ...currencies.map((currency) => `cost, ${currency}`),
    ],
    rows: rows.map((row) => [
      row.prefix,
      row.computeSeconds,
      row.transferSeconds,
      row.tasks,
      row.tasksErred,
      row.bytes,
      ...currencies.map((currency) => amountIn(row.costs, currency)),
    ]),
  };
}

function amountIn(costs: Row["costs"], wanted: string): number | null {
  const own = costs.filter(({ currency }) => currency === wanted);
  return own.length === 0 ? null : own.reduce((sum, { amount }) => sum + amount, 0);
}

function columns(time: (seconds: number) => string, largest: number, rows: readonly Row[]): Column<Row>[] {
  const sum = (of: "computeSeconds" | "transferSeconds" | "tasks" | "tasksErred" | "bytes") =>
    rows.reduce((total, row) => total + row[of], 0);
  return [
    {
      id: "prefix",
      head: "Function",
      width: "minmax(160px, 2fr)",
      cell: (row) => <code>{row.prefix}</code>,
      sum: rows.length < MOST ? "All" : `First ${MOST}`,
    },
    {
      id: "bar",
      head: <span className="hidden">Share</span>,
      width: "minmax(80px, 2fr)",
      cell: (row) => (
        <StackedBar
          label={row.prefix}
          parts={[{ id: "compute", label: "compute time", value: row.computeSeconds, colour: "--act-cpu" }]}
          whole={largest}
          format={time}
        />
      ),
    },
    {
      id: "compute",
      head: "Compute time",
      width: "120px",
      align: "end",
      cell: (row) => time(row.computeSeconds),
      sum: time(sum("computeSeconds")),
    },
    {
      id: "transfer",
      head: "Fetching inputs",
      width: "130px",
      align: "end",
      cell: (row) => time(row.transferSeconds),
      sum: time(sum("transferSeconds")),
    },
    {
      id: "tasks",
      head: "Tasks",
      width: "100px",
      align: "end",
      cell: (row) => count(row.tasks),
      sum: count(sum("tasks")),
    },
    {
      id: "erred",
      head: "Failed",
      width: "80px",
      align: "end",
      cell: (row) => (
        <span className={row.tasksErred > 0 ? styles.failed : "faint"}>{count(row.tasksErred)}</span>
      ),
      sum: count(sum("tasksErred")),
    },
    {
      id: "bytes",
      head: "Results",
      width: "110px",
      align: "end",
      cell: (row) => bytes(row.bytes),
      sum: bytes(sum("bytes")),
    },
    {
      id: "cost",
      head: "Cost",
      width: "100px",
      align: "end",
      cell: (row) => costText(row.costs)?.text ?? "–",
      sum: costText(rows.flatMap(({ costs }) => costs))?.text ?? "–",
    },
  ];
}
