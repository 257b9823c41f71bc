import { useState } from "react";
import { useAccount } from "@/data/account.ts";
import { documentId, documentText } from "@/data/ask.ts";
import { serverPath } from "@/data/base.ts";
import { type ClusterFilter, ClustersDocument } from "@/data/gql/graphql.ts";
import { CopyLink } from "@/panels/take_away/copy_link.tsx";
import { graphqlText } from "@/panels/take_away/csv.ts";
import type { ClustersSearch } from "@/routes/search_types.ts";
import { Button, buttonClass } from "@/ui/button.tsx";
import { Checkbox } from "@/ui/field.tsx";
import { Icon } from "@/ui/icon.tsx";
import { Menu, MenuItem } from "@/ui/menu.tsx";
import { Popover } from "@/ui/popover.tsx";
import { useCopy } from "@/ui/use_copy.ts";
import styles from "./clusters.module.css";
import {
  ALL_COLUMNS,
  allColumns,
  COLUMN_NAMES,
  type ColumnName,
  DEFAULT_COLUMNS,
  movedColumn,
  withColumn,
} from "./column_choice.ts";
import { exportAddress, pythonText } from "./copy_text.ts";
import { fixedStart } from "./filter.ts";
import { ORDERS, parseOrder } from "./order.ts";

interface ToolsProps {
  filter: ClusterFilter | null;
  sort: string | undefined;
  started: ClustersSearch["started"];
  columns: readonly ColumnName[];
  onColumns(columns: ColumnName[]): void;
}

/** Takes the list elsewhere, and chooses its columns. */
export function Tools({ filter, sort, started, columns, onColumns }: ToolsProps) {
  return (
    <>
      {filter && <CopyQuery filter={filter} sort={sort} />}
      {filter && <Export filter={filter} sort={sort} />}
      <CopyLink fixed={{ started: fixedStart(started, Date.now()) }} />
      <Columns columns={columns} onColumns={onColumns} />
    </>
  );
}

function orderOf(sort: string | undefined) {
  const { by, direction } = parseOrder(sort);
  return { field: ORDERS[by] ?? "STARTED_AT", direction: direction === "asc" ? "ASC" : "DESC" };
}

function CopyQuery({ filter, sort }: { filter: ClusterFilter; sort: string | undefined }) {
  const account = useAccount();
  const { copy, look } = useCopy();
  const variables = { filter, order: orderOf(sort), first: 100, withFinished: false };
  const query = async (write: typeof graphqlText) =>
    write(await documentText(documentId(ClustersDocument)), variables, account);
  const { icon, words } = look("Copy query");
  return (
    <Menu
      trigger={
        <Button look="ghost" icon={icon}>
          {words}
        </Button>
      }
    >
      <MenuItem onSelect={() => void copy(query(graphqlText))}>GraphQL</MenuItem>
      <MenuItem onSelect={() => void copy(query(pythonText))}>Python</MenuItem>
    </Menu>
  );
}

function Export({ filter, sort }: { filter: ClusterFilter; sort: string | undefined }) {
  const account = useAccount();
  const [state, setState] = useState<"ready" | "busy" | "failed">("ready");
  const download = async (format: "csv" | "arrow") => {
    setState("busy");
    try {
      const address = serverPath(exportAddress(format, filter, orderOf(sort)));
      const response = await fetch(address, { headers: { "Galvo-Account": account } });
      if (!response.ok) throw new Error(String(response.status));
      save(await response.blob(), `${account}-clusters.${format}`);
      setState("ready");
    } catch {
      setState("failed");
    }
  };
  const words = { ready: "Export", busy: "Exporting", failed: "Export failed" };
  return (
    <Menu
      trigger={
        <button type="button" className={buttonClass("ghost")} disabled={state === "busy"}>
          <Icon name="export" />
          {words[state]}
        </button>
      }
    >
      <MenuItem onSelect={() => void download("csv")}>CSV, all clusters that pass</MenuItem>
      <MenuItem onSelect={() => void download("arrow")}>Arrow, all clusters that pass</MenuItem>
    </Menu>
  );
}

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function Columns({ columns, onColumns }: Pick<ToolsProps, "columns" | "onColumns">) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Popover
      title="Columns, kept in this browser"
      isOpen={isOpen}
      onOpenChange={setOpen}
      trigger={
        <Button icon="table">
          Columns {columns.length} of {ALL_COLUMNS.length}
        </Button>
      }
    >
      {allColumns(columns).map((name) => (
        <div key={name} className={styles.line}>
          <Checkbox
            label={COLUMN_NAMES[name]}
            isChecked={columns.includes(name)}
            onChange={(isOn) => onColumns(withColumn(columns, name, isOn))}
          />
          {columns.indexOf(name) > 0 && (
            <button
              type="button"
              className={styles.choice}
              aria-label={`Move ${COLUMN_NAMES[name]} to the left`}
              title="To the left"
              onClick={() => onColumns(movedColumn(columns, name))}
            >
              ↑
            </button>
          )}
        </div>
      ))}
      <Button size="small" onClick={() => onColumns([...DEFAULT_COLUMNS])}>
        As at first
      </Button>
    </Popover>
  );
}
