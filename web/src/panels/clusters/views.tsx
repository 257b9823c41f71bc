import { useState } from "react";
import { useAccount } from "@/data/account.ts";
import { stringifySearch } from "@/routes/search.ts";
import type { ClustersSearch } from "@/routes/search_types.ts";
import { Button } from "@/ui/button.tsx";
import { Field } from "@/ui/field.tsx";
import { Popover } from "@/ui/popover.tsx";
import styles from "./clusters.module.css";
import { readViews, type View, writeViews } from "./view_store.ts";

interface SaveViewProps {
  search: ClustersSearch;
  onSearch(search: ClustersSearch): void;
}

/** The views that this browser keeps: filters, order and columns under a name. */
export function SaveView({ search, onSearch }: SaveViewProps) {
  const account = useAccount();
  const [isOpen, setOpen] = useState(false);
  const [views, setViews] = useState<readonly View[]>(() => readViews(account));
  const [name, setName] = useState("");
  const change = (next: readonly View[]) => {
    writeViews(account, next);
    setViews(next);
  };
  const isEmpty = stringifySearch({ ...search }) === "";
  const save = () => {
    if (name.trim() === "") return;
    change([...views.filter((view) => view.name !== name.trim()), { name: name.trim(), search }]);
    setName("");
  };
  return (
    <Popover
      title="Views"
      isOpen={isOpen}
      onOpenChange={setOpen}
      trigger={
        <Button size="small" look="ghost">
          {views.length > 0 ? `Views ${views.length}` : "Save view"}
        </Button>
      }
    >
      {views.map((view) => (
        <div key={view.name} className={styles.line}>
          <button
            type="button"
            className={styles.choice}
            onClick={() => {
              setOpen(false);
              onSearch(view.search);
            }}
          >
            {view.name}
          </button>
          <Button
            size="small"
            look="ghost"
            aria-label={`Remove the view ${view.name}`}
            onClick={() => change(views.filter((one) => one !== view))}
          >
            Remove
          </Button>
        </div>
      ))}
      <form
        className={styles.form}
        onSubmit={(event) => {
          event.preventDefault();
          save();
        }}
      >
        <Field
          label="Name of a new view"
          value={name}
          onChange={setName}
          hint={
            isEmpty
              ? "Set a filter, an order or columns first"
              : "Kept in this browser. The address is for others"
          }
        />
        <Button type="submit" disabled={isEmpty || name.trim() === ""}>
          Save
        </Button>
      </form>
    </Popover>
  );
}
