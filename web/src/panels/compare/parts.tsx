import { useMemo, useState } from "react";
import { StackedBar } from "@/charts/bars/stacked_bar.tsx";
import { ACTIVITY_NAMES, ACTIVITY_TOKENS } from "@/charts/colour.ts";
import { CompareDocument } from "@/data/gql/graphql.ts";
import { threadTime, threadUnit } from "@/format/duration.ts";
import { count, signed } from "@/format/number.ts";
import { SheetTable } from "@/panels/take_away/sheet_table.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { Section } from "@/ui/panel.tsx";
import { type Column, Table } from "@/ui/table.tsx";
import styles from "./compare.module.css";
import { activityOfRow, type Comparison, nameOfRow } from "./differences.ts";

interface Part {
  id: string;
  name: string;
  activity: ReturnType<typeof activityOfRow> | "rest";
  /** Dask's own name of the activity. */
  measured: string;
  base: number | null;
  head: number | null;
  delta: number;
}

interface PartsProps {
  comparison: Comparison;
  variables: { base: string; head: string };
}

/** Every part of the difference, the largest first. They add up to it exactly. */
export function Parts({ comparison, variables }: PartsProps) {
  const [isTable, setTable] = useState(false);
  const parts = useMemo(() => partsOf(comparison), [comparison]);
  const sheet = {
    head: ["function", "activity", "A, s", "B, s", "B − A, s"],
    rows: parts.map(({ name, measured, base, head, delta }) => [name, measured, base, head, delta]),
  };
  return (
    <Section
      title="Every part, the largest first"
      sub="thread time; the parts add up to the difference"
      actions={
        <TakeAway
          name="difference"
          document={CompareDocument}
          variables={variables}
          sheet={sheet}
          isTable={isTable}
          onTable={setTable}
        />
      }
    >
      {isTable ? (
        <SheetTable label="Every part" sheet={sheet} />
      ) : (
        <Table
          label="Every part"
          columns={columns(comparison, parts)}
          rows={parts}
          rowKey={({ id }) => id}
          hasSums
        />
      )}
    </Section>
  );
}

function partsOf({ rows, remaining: rest }: Comparison): Part[] {
  const parts: Part[] = rows.map(({ key, base, head, delta }) => ({
    id: `${key.part}\n${key.function}\n${key.activity}`,
    name: nameOfRow(key),
    activity: activityOfRow(key),
    measured: key.activity ?? key.part.toLowerCase(),
    base,
    head,
    delta,
  }));
  if (rest.rows > 0)
    parts.push({
      id: "rest",
      name: `${count(rest.rows)} smaller parts`,
      activity: "rest",
      measured: "",
      base: rest.base,
      head: rest.head,
      delta: rest.delta,
    });
  return parts;
}

function columns(comparison: Comparison, parts: readonly Part[]): Column<Part>[] {
  const { base, head, delta } = comparison;
  // The totals are often so much larger that their unit would show most parts as less than a tenth.
  const unit = threadUnit(Math.max(0, ...parts.flatMap((part) => [part.base ?? 0, part.head ?? 0])));
  const time = (value: number | null) =>
    value === null ? <span className="faint">none</span> : threadTime(value, unit);
  const change = (value: number) => signed(value, (size) => threadTime(size, unit));
  const largest = Math.max(...parts.map((part) => Math.abs(part.delta)));
  return [
    {
      id: "function",
      head: "Function",
      width: "minmax(120px, 2fr)",
      sum: "All",
      cell: ({ name }) => <span title={name}>{name}</span>,
    },
    {
      id: "activity",
      head: "Activity",
      width: "minmax(150px, 1fr)",
      cell: (part) => <Activity part={part} />,
    },
    {
      id: "a",
      head: "A",
      width: "100px",
      align: "end",
      sum: threadTime(base.total, unit),
      cell: (part) => time(part.base),
    },
    {
      id: "b",
      head: "B",
      width: "100px",
      align: "end",
      sum: threadTime(head.total, unit),
      cell: (part) => time(part.head),
    },
    {
      id: "delta",
      head: "B − A",
      width: "100px",
      align: "end",
      sum: change(delta),
      cell: (part) => change(part.delta),
    },
    {
      id: "bar",
      head: <span className="hidden">Difference</span>,
      width: "minmax(80px, 1fr)",
      cell: (part) => (
        <StackedBar
          label={part.name}
          parts={[
            {
              id: "delta",
              label: part.delta > 0 ? "more in B" : "less in B",
              value: Math.abs(part.delta),
              colour: part.activity === "rest" ? "--line-4" : part.delta > 0 ? "--more" : "--less",
            },
          ]}
          whole={largest}
          format={() => change(part.delta)}
        />
      ),
    },
  ];
}

function Activity({ part: { activity, measured } }: { part: Part }) {
  if (activity === "rest") return null;
  const name = activity === null ? "Counted twice" : ACTIVITY_NAMES[activity];
  return (
    <span className={styles.name} title={measured}>
      <i
        className={styles.swatch}
        style={{ background: `var(${activity === null ? "--act-unaccounted" : ACTIVITY_TOKENS[activity]})` }}
      />
      {name}
    </span>
  );
}
