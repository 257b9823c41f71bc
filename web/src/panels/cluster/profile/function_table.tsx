import { StackedBar } from "@/charts/bars/stacked_bar.tsx";
import { count, counted } from "@/format/number.ts";
import { shortFile } from "@/panels/errors/traceback.ts";
import { type Column, Table } from "@/ui/table.tsx";
import { type FunctionSamples, ORIGIN_NAMES, ORIGIN_TOKENS, percent } from "./calls.ts";
import styles from "./profile.module.css";

interface FunctionTableProps {
  functions: readonly FunctionSamples[];
  /** Functions that are summed in one row. */
  others?: readonly FunctionSamples[];
  samples: number;
  /** The samples in lines that the server left out. */
  restSamples: number;
  /** The text that is looked for. */
  chosen: string;
  onChoose(name: string): void;
}

interface Row {
  id: string;
  name: string;
  file: string | null;
  origin: FunctionSamples["origin"] | null;
  self: number;
  /** Null for sums: functions that call one another share samples. */
  total: number | null;
}

/** Functions, the most samples of their own first. Their own samples add up to all samples. */
export function FunctionTable(props: FunctionTableProps) {
  const { functions, others = [], samples, restSamples, chosen, onChoose } = props;
  const rows: Row[] = [...functions];
  const sum = (name: string, self: number) =>
    self > 0 && rows.push({ id: name, name, file: null, origin: null, self, total: null });
  sum(
    counted(others.length, "other function"),
    others.reduce((total, { self }) => total + self, 0),
  );
  sum("lines that are left out", restSamples);
  return (
    <Table
      label="Functions by own time"
      columns={columns(samples, functions[0]?.self ?? 0)}
      rows={rows}
      rowKey={({ id }) => id}
      hasSums
      isSelected={({ name, file }) => file !== null && name === chosen}
      onOpen={({ name, file }) => file !== null && onChoose(name)}
    />
  );
}

function columns(samples: number, largest: number): Column<Row>[] {
  return [
    {
      id: "function",
      head: "Function",
      width: "minmax(184px, 3fr)",
      sum: "All samples",
      cell: ({ name, file, origin }) => (
        <span className={styles.function}>
          {origin ? (
            <i
              className={styles.swatch}
              title={ORIGIN_NAMES[origin]}
              style={{ background: `var(${ORIGIN_TOKENS[origin]})` }}
            />
          ) : null}
          {file === null ? <span className="muted">{name}</span> : <code>{name}</code>}
          {file !== null && (
            <span className="faint truncated" title={file}>
              {shortFile(file)}
            </span>
          )}
        </span>
      ),
    },
    {
      id: "bar",
      head: <span className="hidden">Share</span>,
      width: "minmax(80px, 1fr)",
      cell: ({ name, self }) => (
        <StackedBar
          label={name}
          parts={[{ id: "own", label: "own samples", value: self, colour: "--text-2" }]}
          whole={largest}
          format={(value) => percent(value, samples)}
        />
      ),
    },
    {
      id: "own",
      head: "Own",
      width: "80px",
      align: "end",
      sum: percent(samples, samples),
      cell: ({ self }) => percent(self, samples),
    },
    {
      id: "total",
      head: "With calls",
      width: "100px",
      align: "end",
      cell: ({ total }) => (total === null ? "–" : percent(total, samples)),
    },
    {
      id: "samples",
      head: "Own samples",
      width: "110px",
      align: "end",
      sum: count(samples),
      cell: ({ self }) => count(self),
    },
  ];
}
