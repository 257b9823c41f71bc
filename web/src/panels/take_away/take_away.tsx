import { useAccount } from "@/data/account.ts";
import { type Document, documentId, documentText } from "@/data/ask.ts";
import { Button, type ButtonSize } from "@/ui/button.tsx";
import { useIsNarrow } from "@/ui/media.ts";
import { Menu, MenuItem } from "@/ui/menu.tsx";
import { useCopy } from "@/ui/use_copy.ts";
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
  const { copy, look } = useCopy();
  const { isTable = false, onTable, label = "Take away", size = "normal" } = props;
  // A narrow screen has no room for the default words. A label of the panel stays.
  const isIcon = useIsNarrow() && !props.label;
  const query = async (write: typeof graphqlText) =>
    write(await documentText(documentId(props.document)), props.variables, account);
  const { icon, words } = look(label, "export");
  return (
    <Menu
      trigger={
        <Button look="ghost" size={size} icon={icon}>
          <span className={isIcon && words === label ? "hidden" : undefined}>{words}</span>
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
      <MenuItem onSelect={() => void copy(query(graphqlText))}>Copy as GraphQL</MenuItem>
      <MenuItem onSelect={() => void copy(query(pythonText))}>Copy as Python</MenuItem>
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
