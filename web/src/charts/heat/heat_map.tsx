import { type KeyboardEvent, type ReactNode, useRef, useState } from "react";
import type { Token } from "../colour.ts";
import styles from "./heat_map.module.css";
import { heatStep } from "./steps.ts";

export interface HeatMapProps {
  /** A sentence that says what the map shows. */
  label: string;
  rows: readonly { id: string; label: string }[];
  columns: readonly { id: string; label: string; isLabelled?: boolean }[];
  /** The value of a cell. Null is unknown, not 0. */
  value(row: string, column: string): number | null;
  /** The lower limits of the steps 1 to 7. */
  cuts: readonly number[];
  tone?: "heat" | "heat-bad";
  /** A cell in words: `okan, 15 Nov, 182 hours`. */
  describe(row: string, column: string): string;
  tip?(row: string, column: string): ReactNode;
  isChosen?(row: string, column: string): boolean;
  onChoose?(row: string, column: string): void;
  /** The sums: a bar above each column, and one beside each row. */
  margins?: HeatMapMargins;
}

export interface HeatMapMargins {
  label: string;
  total: number;
  column(column: string): number;
  row(row: string): number;
  format(value: number): string;
}

interface Place {
  row: number;
  column: number;
}

const MOVES: Record<string, Place> = {
  ArrowRight: { row: 0, column: 1 },
  ArrowLeft: { row: 0, column: -1 },
  ArrowDown: { row: 1, column: 0 },
  ArrowUp: { row: -1, column: 0 },
};

/** Values of two dimensions as colours. A grid with one cell in the tab order; arrow keys move it. */
export function HeatMap(props: HeatMapProps) {
  const { rows, columns, cuts, tone = "heat" } = props;
  const [focus, setFocus] = useState<Place>({ row: 0, column: 0 });
  const [over, setOver] = useState<Place | null>(null);
  const grid = useRef<HTMLDivElement>(null);
  const onKeyDown = (event: KeyboardEvent) => {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    const row = Math.min(rows.length - 1, Math.max(0, focus.row + move.row));
    const column = Math.min(columns.length - 1, Math.max(0, focus.column + move.column));
    setFocus({ row, column });
    setOver({ row, column });
    grid.current?.querySelector<HTMLElement>(`[data-place="${row}-${column}"]`)?.focus();
  };
  const colour = (value: number | null): Token | null =>
    value === null ? null : heatStep(value, cuts) === 0 ? "--heat-0" : `--${tone}-${heatStep(value, cuts)}`;
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the pointer leaves the grid; the cells have the focus
    <div className={styles.holder} onMouseLeave={() => setOver(null)}>
      <div
        role="grid"
        aria-label={props.label}
        ref={grid}
        className={styles.map}
        style={{
          gridTemplateColumns: `max-content repeat(${columns.length}, minmax(6px, 1fr))${
            props.margins ? " minmax(64px, 15%)" : ""
          }`,
        }}
        onKeyDown={onKeyDown}
      >
        {props.margins && <ColumnSums {...props.margins} columns={columns} />}
        {rows.map(({ id: row, label }, rowIndex) => (
          <div role="row" key={row} style={{ display: "contents" }}>
            <div role="rowheader" className={styles.name}>
              {label}
            </div>
            {columns.map(({ id: column }, columnIndex) => {
              const token = colour(props.value(row, column));
              return (
                <button
                  type="button"
                  role="gridcell"
                  key={column}
                  data-place={`${rowIndex}-${columnIndex}`}
                  data-chosen={props.isChosen?.(row, column) ?? false}
                  className={styles.cell}
                  tabIndex={focus.row === rowIndex && focus.column === columnIndex ? 0 : -1}
                  aria-label={props.describe(row, column)}
                  style={
                    token ? { backgroundColor: `var(${token})` } : { border: "1px dashed var(--line-4)" }
                  }
                  onMouseEnter={() => setOver({ row: rowIndex, column: columnIndex })}
                  onFocus={() => setFocus({ row: rowIndex, column: columnIndex })}
                  onClick={() => props.onChoose?.(row, column)}
                />
              );
            })}
            {props.margins && <RowSum {...props.margins} rows={rows} of={row} tone={tone} />}
          </div>
        ))}
        <div role="row" style={{ display: "contents" }}>
          <span role="columnheader" className="hidden">
            Rows
          </span>
          <span />
          {columns.map(({ id, label, isLabelled }) => (
            <div role="columnheader" key={id} className={styles.column} title={label}>
              {isLabelled ? label : <span className="hidden">{label}</span>}
            </div>
          ))}
          {props.margins && (
            <span role="columnheader" className="hidden">
              Total
            </span>
          )}
        </div>
      </div>
      {over && props.tip && <Tip {...props} place={over} />}
    </div>
  );
}

function ColumnSums(props: HeatMapMargins & Pick<HeatMapProps, "columns">) {
  const { columns, column, format } = props;
  const top = Math.max(...columns.map(({ id }) => column(id)), Number.MIN_VALUE);
  return (
    <div role="row" style={{ display: "contents" }}>
      <div role="rowheader" className={styles.name}>
        {props.label}
      </div>
      {columns.map(({ id, label }) => (
        <div role="gridcell" key={id} className={styles.columnSum} title={`${label}: ${format(column(id))}`}>
          <span className="hidden">{`${label}: ${format(column(id))}`}</span>
          <i style={{ height: `${(column(id) / top) * 100}%` }} />
        </div>
      ))}
      <div role="gridcell" className={styles.total}>
        <span>Total</span>
        <span className="num">{format(props.total)}</span>
      </div>
    </div>
  );
}

function RowSum(props: HeatMapMargins & Pick<HeatMapProps, "rows" | "tone"> & { of: string }) {
  const { rows, row, of, format } = props;
  const top = Math.max(...rows.map(({ id }) => row(id)), Number.MIN_VALUE);
  return (
    <div role="gridcell" className={styles.rowSum}>
      <span className={styles.rowBar}>
        <i style={{ width: `${(row(of) / top) * 100}%`, background: `var(--${props.tone}-5)` }} />
      </span>
      <span className="num">{format(row(of))}</span>
    </div>
  );
}

function Tip({ rows, columns, tip, place, margins }: HeatMapProps & { place: Place }) {
  const row = rows[place.row];
  const column = columns[place.column];
  if (!row || !column) return null;
  const share = (place.column + 0.5) / columns.length;
  const side = share > 0.6 ? { right: `${(1 - share) * 88}%` } : { left: `${12 + share * 88}%` };
  return (
    <div className={styles.tip} style={{ ...side, top: (place.row + 1) * 26 + (margins ? 46 : 0) }}>
      {tip?.(row.id, column.id)}
    </div>
  );
}
