import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, type MouseEvent, useState } from "react";
import { useAccount } from "@/data/account.ts";
import { useCommands } from "@/ui/commands.ts";
import { Checkbox } from "@/ui/field.tsx";
import { useMedia } from "@/ui/media.ts";
import { type Column, Table } from "@/ui/table.tsx";
import { HoverCard, type Pointed } from "./card/card.tsx";
import styles from "./clusters.module.css";
import type { ColumnName } from "./column_choice.ts";
import { clusterColumns, type Sums } from "./columns.tsx";
import { CompactRow } from "./compact_row.tsx";
import type { NamedOrder } from "./order.ts";
import { clusterName, type Row } from "./rows.ts";
import { MAX_SELECTED, type Selected } from "./selection.ts";

const TABLE = "Clusters";

interface ClustersTableProps {
  rows: readonly Row[];
  sums: Sums | null;
  columns: readonly ColumnName[];
  order: NamedOrder;
  onOrder(order: NamedOrder): void;
  selected: Selected;
  onNearEnd(): void;
}

/** The rows of the list. */
export function ClustersTable(props: ClustersTableProps) {
  const { rows, sums, columns, order, onOrder, selected, onNearEnd } = props;
  const account = useAccount();
  const navigate = useNavigate();
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const canHover = useMedia("(hover: hover) and (min-width: 641px)");
  useRowKeys(rows, selected);
  const open = (row: Row, event: MouseEvent | KeyboardEvent) => {
    const to = { to: "/$account/clusters/$number", params: { account, number: String(row.number) } } as const;
    if (event.metaKey || event.ctrlKey) {
      const name = (event.currentTarget as HTMLElement).querySelector("a")?.href;
      if (name) window.open(name, "_blank", "noopener");
    } else {
      void navigate(to);
    }
  };
  return (
    <div className={styles.panel}>
      <Table
        label={TABLE}
        columns={[selectColumn(rows, selected), ...clusterColumns(columns, account, sums, rows)]}
        rows={rows}
        rowKey={(row) => row.id}
        totalCount={sums?.totalCount ?? null}
        sort={order}
        onSort={onOrder}
        onNearEnd={onNearEnd}
        onOpen={open}
        isSelected={(row) => selected.rows.has(row.id)}
        hasSums
        compact={(row) => <CompactRow row={row} account={account} />}
        scrollName="clusters"
        onPoint={(row, element) => setPointed(canHover && row && element ? { row, element } : null)}
      />
      <HoverCard pointed={pointed} />
    </div>
  );
}

function selectColumn(rows: readonly Row[], selected: Selected): Column<Row> {
  const { size } = selected.rows;
  const most = Math.min(rows.length, MAX_SELECTED);
  return {
    id: "select",
    width: "42px",
    head: (
      <span className={styles.select}>
        <Checkbox
          label={size > 0 ? "Clear the selection" : `Select the first ${most} clusters`}
          hidesLabel
          isChecked={size > 0 && size >= most}
          isPartly={size > 0 && size < most}
          onChange={() => selected.set(size > 0 ? [] : rows)}
        />
      </span>
    ),
    cell: (row) => (
      // biome-ignore lint/a11y/noLabelWithoutControl: the box is within
      <label className={styles.select}>
        <Checkbox
          label={`Select ${clusterName(row)} #${row.number}`}
          hidesLabel
          isChecked={selected.rows.has(row.id)}
          disabled={size >= MAX_SELECTED && !selected.rows.has(row.id)}
          onChange={() => selected.toggle(row)}
        />
      </label>
    ),
  };
}

/** Moves the focus between rows and selects the row with the focus. */
function useRowKeys(rows: readonly Row[], selected: Selected): void {
  const focused = () => {
    const row = document.activeElement?.closest<HTMLElement>("[aria-rowindex]");
    return row?.closest(`[aria-label="${TABLE}"]`) ? Number(row.getAttribute("aria-rowindex")) : null;
  };
  const move = (step: 1 | -1) => {
    const table = document.querySelector(`[role=table][aria-label="${TABLE}"]`);
    const at = focused();
    const first = table?.querySelector<HTMLElement>("[aria-rowindex]");
    const next = at === null ? first : table?.querySelector<HTMLElement>(`[aria-rowindex="${at + step}"]`);
    next?.focus();
  };
  useCommands([
    { id: "next-row", label: "Next row", keys: "j", group: "Table", isKeyOnly: true, run: () => move(1) },
    {
      id: "previous-row",
      label: "Previous row",
      keys: "k",
      group: "Table",
      isKeyOnly: true,
      run: () => move(-1),
    },
    {
      id: "select-row",
      label: "Select the row",
      keys: "x",
      group: "Table",
      isKeyOnly: true,
      run: () => {
        const row = rows[(focused() ?? 0) - 1];
        if (row) selected.toggle(row);
      },
    },
  ]);
}
