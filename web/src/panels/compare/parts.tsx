import { useMemo, useState } from "react";
import { StackedBar } from "@/charts/bars/stacked_bar.tsx";
import { ACTIVITY_NAMES, ACTIVITY_TOKENS } from "@/charts/colour.ts";
import { CompareDocument } from "@/data/gql/graphql.ts";
import { signed } from "@/format/number.ts";
import { SheetTable } from "@/panels/take_away/sheet_table.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { Section } from "@/ui/panel.tsx";
import { type Column, Table } from "@/ui/table.tsx";
import styles from "./compare.module.css";
import type { Comparison } from "./differences.ts";
import { allParts, foldedParts, type Part, partTimes } from "./folded_parts.ts";

interface PartsProps {
  comparison: Comparison;
  variables: { base: string; head: string };
}

/** The parts of the difference, the largest first. With the sum of the small ones they add up to it exactly. */
export function Parts({ comparison, variables }: PartsProps) {
  const [isTable, setTable] = useState(false);
  const parts = useMemo(() => allParts(comparison), [comparison]);
  const shown = useMemo(() => foldedParts(parts), [parts]);
  const times = useMemo(() => partTimes(parts), [parts]);
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
          columns={columns(comparison, shown, times)}
          rows={shown}
          rowKey={({ id }) => id}
          hasSums
          compact={(part) => <Compact part={part} times={times} />}
        />
      )}
    </Section>
  );
}

type Times = (seconds: number) => string;

function columns(comparison: Comparison, parts: readonly Part[], times: Times): Column<Part>[] {
  const { base, head, delta } = comparison;
  const time = (value: number | null) =>
    value === null ? <span className="faint">none</span> : times(value);
  const change = (value: number) => signed(value, times);
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
      sum: times(base.total),
      cell: (part) => time(part.base),
    },
    {
      id: "b",
      head: "B",
      width: "100px",
      align: "end",
      sum: times(head.total),
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

function Compact({ part, times }: { part: Part; times: Times }) {
  const { name, base, head, delta } = part;
  const time = (value: number | null) => (value === null ? "none" : times(value));
  return (
    <>
      <div className={styles.line}>
        <span className="truncated grow">{name}</span>
        <span className="num">{signed(delta, times)}</span>
      </div>
      <div className={`${styles.line} muted small`}>
        <Activity part={part} />
        <span className="grow" />
        {time(base)} → {time(head)}
      </div>
    </>
  );
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
