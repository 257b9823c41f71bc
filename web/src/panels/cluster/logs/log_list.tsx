import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { count, counted } from "@/format/number.ts";
import { Button } from "@/ui/button.tsx";
import { beginning, type Line, lineTime, processName } from "./lines.ts";
import styles from "./logs.module.css";

interface LogListProps {
  lines: readonly Line[];
  /** The number of all lines. Null if it is unknown, as during a search. */
  totalCount: number | null;
  withDay: boolean;
  /** Called as the viewport nears the end of the loaded lines. */
  onNearEnd(): void;
  /** Called as the first line leaves the viewport or comes back. */
  onTop(isAtTop: boolean): void;
  onWorker(id: string, name: string): void;
  foot: ReactNode;
}

const ROW_HEIGHT = 18;
const PADDING = 6;
/** The distance, in pixels, that the reader may scroll and still be at the top. */
const TOP_PIXELS = 4;

/** The lines of a log. Only those in sight are in the document. */
export function LogList(props: LogListProps) {
  const { lines, totalCount, withDay, onNearEnd, onTop, onWorker } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const wasAtTop = useRef(true);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    getItemKey: (index) => lines[index]?.cursor ?? index,
    estimateSize: (index) => PADDING + ROW_HEIGHT * rowsOf(lines[index]),
    overscan: 12,
  });
  const items = virtual.getVirtualItems();
  const lastShown = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (lastShown >= lines.length - 20) onNearEnd();
  }, [lastShown, lines.length, onNearEnd]);
  const onScroll = () => {
    const isAtTop = (scroller.current?.scrollTop ?? 0) <= TOP_PIXELS;
    if (isAtTop === wasAtTop.current) return;
    wasAtTop.current = isAtTop;
    onTop(isAtTop);
  };
  const open = (cursor: string) => setOpened((old) => new Set(old).add(cursor));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard
    <div className={styles.scroller} ref={scroller} onScroll={onScroll} tabIndex={0}>
      <div
        role="table"
        aria-label="Log lines"
        aria-rowcount={totalCount ?? -1}
        className={withDay ? styles.withDay : undefined}
      >
        <div role="row" className={`${styles.row} ${styles.head}`}>
          <span role="columnheader">Time, UTC</span>
          <span role="columnheader">Level</span>
          <span role="columnheader">Process</span>
          <span role="columnheader">Line</span>
        </div>
        <div role="rowgroup" className={styles.body} style={{ height: virtual.getTotalSize() }}>
          {items.map(({ index, key, start }) => {
            const line = lines[index];
            if (!line) return null;
            return (
              <div
                role="row"
                key={key}
                ref={virtual.measureElement}
                data-index={index}
                aria-rowindex={index + 2}
                data-level={line.level}
                className={styles.row}
                style={{ transform: `translateY(${start}px)` }}
              >
                <span role="cell" className="faint num">
                  {lineTime(line.at, withDay)}
                </span>
                <span role="cell" className={styles.level}>
                  {line.level}
                </span>
                <span role="cell" className={styles.process}>
                  <Process line={line} onWorker={onWorker} />
                </span>
                <div role="cell" className={styles.message}>
                  <Message line={line} isOpen={opened.has(line.cursor)} onOpen={() => open(line.cursor)} />
                </div>
              </div>
            );
          })}
        </div>
      </div>
      {props.foot && <div className={styles.foot}>{props.foot}</div>}
    </div>
  );
}

function rowsOf(line: Line | undefined): number {
  const { shown, hidden } = beginning(line?.message ?? "");
  return shown.split("\n").length + (hidden > 0 ? 1 : 0);
}

function Process({ line, onWorker }: { line: Line; onWorker(id: string, name: string): void }) {
  const name = processName(line);
  const { workerId } = line;
  if (workerId === null) return name;
  return (
    <button
      type="button"
      className={styles.worker}
      title={line.worker ?? undefined}
      onClick={() => onWorker(workerId, line.workerProcess?.name ?? line.worker ?? workerId)}
    >
      {name}
      <span className="hidden">, show its lines only</span>
    </button>
  );
}

function Message({ line, isOpen, onOpen }: { line: Line; isOpen: boolean; onOpen(): void }) {
  const { message, logger, repeated } = line;
  if (message === null) return <em>The line cannot be decrypted</em>;
  const { shown, hidden } = isOpen ? { shown: message, hidden: 0 } : beginning(message);
  return (
    <>
      <span className="faint">{logger}</span> {shown}
      {repeated > 1 && <span className="faint"> {count(repeated)} times in a row</span>}
      {hidden > 0 && (
        <div>
          <Button size="small" onClick={onOpen}>
            {counted(hidden, "more row")}
          </Button>
        </div>
      )}
    </>
  );
}
