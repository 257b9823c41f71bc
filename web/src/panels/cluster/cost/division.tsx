import { type ReactNode, useState } from "react";
import { StackedBar } from "@/charts/bars/stacked_bar.tsx";
import type { Token } from "@/charts/colour.ts";
import { ClusterCostDocument } from "@/data/gql/graphql.ts";
import { threadTimes } from "@/format/duration.ts";
import { share } from "@/format/number.ts";
import { SheetTable } from "@/panels/take_away/sheet_table.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { Section } from "@/ui/panel.tsx";
import { type Column, Table } from "@/ui/table.tsx";
import { amountFormat, type Cost } from "./costs.ts";

/** The colours that need a line around them. */
const PALE = new Set<Token>(["--act-idle", "--act-unaccounted"]);

/** A part of a cost. */
export interface Line {
  id: string;
  /** The name in words, for the tables that leave the page. */
  text: string;
  name: ReactNode;
  amount: number;
  /** The values of `times`, in seconds. Null is unknown. */
  seconds: readonly (number | null)[];
  colour: Token;
}

interface DivisionProps {
  cluster: string;
  cost: Cost;
  title: string;
  level: 2 | 3;
  sub: string;
  /** The noun for a line, such as `Hour`. */
  noun: string;
  /** The columns of times. A sum is null if the lines do not add up to the cluster's. */
  times: readonly { head: string; sum: number | null }[];
  lines: readonly Line[];
  actions?: ReactNode;
  /** Between the heading and the table. */
  children?: ReactNode;
  note?: ReactNode;
}

/** The cost in parts, which add up to the sum above them. */
export function Division(props: DivisionProps) {
  const { cluster, cost, title, level, sub, noun, times, lines } = props;
  const [isTable, setTable] = useState(false);
  const label = `Cost by ${noun.toLowerCase()}`;
  const sheet = {
    head: [noun.toLowerCase(), `cost, ${cost.currency}`, ...times.map(({ head }) => `${head}, s`)],
    rows: lines.map(({ text, amount, seconds }) => [text, amount, ...seconds]),
  };
  return (
    <Section
      title={title}
      level={level}
      sub={sub}
      actions={
        <>
          {props.actions}
          <TakeAway
            name={label.toLowerCase().replaceAll(" ", "-")}
            document={ClusterCostDocument}
            variables={{ id: cluster }}
            sheet={sheet}
            isTable={isTable}
            onTable={setTable}
          />
        </>
      }
    >
      {props.children}
      {isTable ? (
        <SheetTable label={label} sheet={sheet} />
      ) : (
        <Table label={label} columns={columns(props)} rows={lines} rowKey={({ id }) => id} hasSums />
      )}
      {props.note}
    </Section>
  );
}

function columns({ cost, noun, times, lines }: DivisionProps): Column<Line>[] {
  const format = amountFormat(cost);
  const whole = lines.reduce((sum, { amount }) => sum + amount, 0);
  const largest = Math.max(0, ...lines.map(({ amount }) => amount));
  const time = threadTimes(
    Math.max(0, ...lines.flatMap(({ seconds }) => seconds.map((value) => value ?? 0))),
  );
  return [
    { id: "name", head: noun, width: "minmax(150px, 2fr)", sum: "All", cell: ({ name }) => name },
    {
      id: "bar",
      head: <span className="hidden">Share</span>,
      width: "minmax(80px, 2fr)",
      cell: ({ text, amount, colour }) => (
        <StackedBar
          label={text}
          parts={[{ id: "cost", label: "cost", value: amount, colour, isOutlined: PALE.has(colour) }]}
          whole={largest}
          format={format}
        />
      ),
    },
    ...times.map(
      ({ head, sum }, index): Column<Line> => ({
        id: head,
        head,
        width: "120px",
        align: "end",
        sum: sum === null ? "" : time(sum),
        cell: ({ seconds }) => {
          const value = seconds[index] ?? null;
          return value === null ? "–" : time(value);
        },
      }),
    ),
    {
      id: "cost",
      head: "Cost",
      width: "110px",
      align: "end",
      sum: format(whole),
      cell: ({ amount }) => format(amount),
    },
    {
      id: "share",
      head: "Share",
      width: "80px",
      align: "end",
      sum: share(1),
      cell: ({ amount }) => (whole > 0 ? share(amount / whole) : "–"),
    },
  ];
}
