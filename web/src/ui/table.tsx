import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type FocusEvent,
  type KeyboardEvent,
  type MouseEvent,
  memo,
  type ReactNode,
  useEffect,
  useRef,
} from "react";
import { useIsNarrow } from "./media.ts";
import styles from "./table.module.css";

export interface Column<Row> {
  id: string;
  head: ReactNode;
  /** A width of CSS grid, such as `minmax(120px, 2fr)`. */
  width: string;
  align?: "start" | "end";
  cell(row: Row): ReactNode;
  /** The sum over all rows that pass the filter, not over those that are loaded. */
  sum?: ReactNode;
  /** The server's order, if the column has one. */
  sort?: string;
}

export interface Sort {
  by: string;
  direction: "asc" | "desc";
}

interface TableProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey(row: Row): string;
  /** The number of all rows, loaded or not. */
  totalCount?: number | null;
  sort?: Sort;
  onSort?(sort: Sort): void;
  onOpen?(row: Row, event: MouseEvent | KeyboardEvent): void;
  isSelected?(row: Row): boolean;
  /** Called as the viewport nears the end of the loaded rows. */
  onNearEnd?(): void;
  hasSums?: boolean;
  foot?: ReactNode;
  /** The row on narrow screens, in two lines. Without it, the columns scroll sideways. */
  compact?(row: Row): ReactNode;
  /** Called with the row under the pointer or with the focus, and with null as it is left. */
  onPoint?(row: Row | null, element: HTMLElement | null): void;
  /** Scrolls inside of the table, so that its head stays in sight, and restores the place under this name. */
  scrollName?: string;
}

const ROW_HEIGHT = 34;
const COMPACT_HEIGHT = 58;
const VIRTUAL_FROM = 100;

/** A table with a sticky head and sums. From 100 rows on only those in sight are in the document. */
export function Table<Row>(props: TableProps<Row>) {
  const { columns, rows, rowKey, onNearEnd } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const isVirtual = rows.length >= VIRTUAL_FROM;
  const isNarrow = useIsNarrow() && props.compact !== undefined;
  const rowHeight = isNarrow ? COMPACT_HEIGHT : ROW_HEIGHT;
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    enabled: isVirtual,
  });
  const items = virtual.getVirtualItems();
  const lastShown = items.at(-1)?.index ?? 0;
  useEffect(() => {
    // A list that is too short to scroll is near its end.
    if (!isVirtual || lastShown >= rows.length - 20) onNearEnd?.();
  }, [isVirtual, lastShown, rows.length, onNearEnd]);
  const { measure } = virtual;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the sizes are those of the rows' height
  useEffect(() => measure(), [measure, rowHeight]);

  const template = templateOf(columns, isNarrow);
  const isTall = isVirtual || props.scrollName !== undefined;
  return (
    <div
      className={isTall ? styles.tall : styles.scroller}
      ref={scroller}
      // Without rows that take the focus, the keyboard has to scroll the table itself.
      tabIndex={isTall || !props.onOpen ? 0 : undefined}
      data-scroll-restoration-id={props.scrollName}
    >
      <div
        role="table"
        aria-label={props.label}
        aria-rowcount={props.totalCount ?? rows.length}
        className={isNarrow ? styles.narrow : styles.grid}
      >
        {!isNarrow && <Head {...props} template={template} />}
        {props.hasSums && !isNarrow && (
          <div role="row" className={`${styles.row} ${styles.sums}`} style={template}>
            {columns.map((column) => (
              <div role="cell" key={column.id} className={cellClass(column)}>
                {column.sum}
              </div>
            ))}
          </div>
        )}
        <div
          role="rowgroup"
          className={`${styles.body} ${isVirtual ? styles.virtual : ""}`}
          style={isVirtual ? { height: virtual.getTotalSize() } : undefined}
        >
          {isVirtual
            ? items.map(({ index, start }) => {
                const row = rows[index];
                if (row === undefined) return null;
                return <MemoRow key={rowKey(row)} {...{ table: props, row, index, start, isNarrow }} />;
              })
            : rows.map((row, index) => (
                <MemoRow key={rowKey(row)} {...{ table: props, row, index, start: null, isNarrow }} />
              ))}
        </div>
      </div>
      {props.foot && <div className={styles.foot}>{props.foot}</div>}
    </div>
  );
}

function templateOf<Row>(columns: readonly Column<Row>[], isNarrow: boolean) {
  return {
    gridTemplateColumns: isNarrow ? "minmax(0, 1fr)" : columns.map(({ width }) => width).join(" "),
  };
}

function cellClass<Row>(column: Column<Row>): string {
  return column.align === "end" ? `${styles.cell} ${styles.end}` : String(styles.cell);
}

const ARROWS = { asc: "↑", desc: "↓" } as const;
const ARIA_SORT = { asc: "ascending", desc: "descending" } as const;

function Head<Row>({ columns, sort, onSort, template }: TableProps<Row> & { template: object }) {
  return (
    <div role="row" className={`${styles.row} ${styles.head}`} style={template}>
      {columns.map((column) => {
        const isOn = column.sort !== undefined && sort?.by === column.sort;
        return (
          <div
            role="columnheader"
            key={column.id}
            className={cellClass(column)}
            aria-sort={isOn && sort ? ARIA_SORT[sort.direction] : undefined}
          >
            {column.sort !== undefined && onSort ? (
              <button
                type="button"
                className={styles.sort}
                data-on={isOn}
                onClick={() => onSort(nextSort(column.sort ?? "", sort))}
              >
                {column.head} {isOn && sort ? ARROWS[sort.direction] : ""}
              </button>
            ) : (
              column.head
            )}
          </div>
        );
      })}
    </div>
  );
}

/** Returns the order after a click: the largest first, then the smallest first. */
export function nextSort(by: string, sort: Sort | undefined): Sort {
  if (sort?.by !== by) return { by, direction: "desc" };
  return { by, direction: sort.direction === "desc" ? "asc" : "desc" };
}

interface BodyRowProps<Row> {
  /** The properties of the table: the same object while it scrolls. */
  table: TableProps<Row>;
  row: Row;
  index: number;
  /** The place in a virtual table. */
  start: number | null;
  isNarrow: boolean;
}

// While the table scrolls, the rows that stay in sight stay as they are.
const MemoRow = memo(BodyRow) as typeof BodyRow;

function BodyRow<Row>({ table, row, index, start, isNarrow }: BodyRowProps<Row>) {
  const { columns, onOpen, onPoint, isSelected, compact } = table;
  const open = (event: MouseEvent | KeyboardEvent) => {
    if ((event.target as HTMLElement).closest("a, button, input, label")) return;
    onOpen?.(row, event);
  };
  const interactive = onOpen
    ? {
        tabIndex: 0,
        onClick: open,
        onKeyDown: (event: KeyboardEvent) => event.key === "Enter" && open(event),
      }
    : {};
  const pointed = onPoint
    ? {
        onMouseEnter: (event: MouseEvent<HTMLElement>) => onPoint(row, event.currentTarget),
        onMouseLeave: () => onPoint(null, null),
        onFocus: (event: FocusEvent<HTMLElement>) => {
          if (event.currentTarget.matches(":focus-visible")) onPoint(row, event.currentTarget);
        },
        onBlur: () => onPoint(null, null),
      }
    : {};
  return (
    <div
      role="row"
      className={styles.row}
      style={{
        ...templateOf(columns, isNarrow),
        ...(start === null
          ? {}
          : { transform: `translateY(${start}px)`, height: isNarrow ? COMPACT_HEIGHT : ROW_HEIGHT }),
      }}
      aria-rowindex={index + 1}
      data-selected={isSelected?.(row) ?? false}
      {...interactive}
      {...pointed}
    >
      {isNarrow && compact ? (
        <div role="cell" className={styles.compact}>
          {compact(row)}
        </div>
      ) : (
        columns.map((column) => (
          <div role="cell" key={column.id} className={cellClass(column)}>
            {column.cell(row)}
          </div>
        ))
      )}
    </div>
  );
}
