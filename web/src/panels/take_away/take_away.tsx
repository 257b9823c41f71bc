import { useState } from "react";
import { useAccount } from "@/data/account.ts";
import { type Document, documentId, documentText } from "@/data/ask.ts";
import { Button, type ButtonSize } from "@/ui/button.tsx";
import { Menu, MenuItem } from "@/ui/menu.tsx";
import { csv, graphqlText, pythonText, type Sheet } from "./csv.ts";

interface TakeAwayProps<Result, Variables> {
  /** The name of the file, without its ending. */
  name: string;
  document: Document<Result, Variables>;
  variables: Variables;
  sheet: Sheet;
  /** The words on the button, where the panel has other data as well. */
  label?: string;
  size?: ButtonSize;
  isTable?: boolean;
  /** Absent if the data are shown as a table already. */
  onTable?(isTable: boolean): void;
}

/** Takes the data of a panel elsewhere: as a table, as CSV, or as the query that asks for them. */
export function TakeAway<Result, Variables>(props: TakeAwayProps<Result, Variables>) {
  const account = useAccount();
  const [done, setDone] = useState(false);
  const { isTable = false, onTable, label = "Take away", size = "normal" } = props;
  const copy = async (write: typeof graphqlText) => {
    const text = await documentText(documentId(props.document));
    await navigator.clipboard.writeText(write(text, props.variables, account));
    setDone(true);
    setTimeout(() => setDone(false), 2000);
  };
  return (
    <Menu
      trigger={
        <Button look="ghost" size={size} icon={done ? "check" : "export"}>
          {done ? "Copied" : label}
          <span className="hidden"> {props.name}</span>
        </Button>
      }
    >
      {onTable && (
        <MenuItem isChosen={isTable} onSelect={() => onTable(!isTable)}>
          As table
        </MenuItem>
      )}
      <MenuItem onSelect={() => save(csv(props.sheet), `${account}-${props.name}.csv`)}>CSV</MenuItem>
      <MenuItem onSelect={() => void copy(graphqlText)}>Copy as GraphQL</MenuItem>
      <MenuItem onSelect={() => void copy(pythonText)}>Copy as Python</MenuItem>
    </Menu>
  );
}

function save(text: string, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
