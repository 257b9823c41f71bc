import { useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { useAccount } from "@/data/account.ts";
import { Button, IconButton } from "@/ui/button.tsx";
import { useCommands } from "@/ui/commands.ts";
import { NOT_ADMIN, useIsAdmin } from "./change/permission.ts";
import styles from "./clusters.module.css";
import { canStop, type Row } from "./rows.ts";
import { MAX_SELECTED, type Selected } from "./selection.ts";

const StopDialog = lazy(() => import("./change/stop_dialog.tsx"));
const TagDialog = lazy(() => import("./change/tag_dialog.tsx"));

/** The actions for the selected clusters. */
export function BulkBar({ selected, onChanged }: { selected: Selected; onChanged(): void }) {
  const account = useAccount();
  const navigate = useNavigate();
  // A dialog keeps the clusters that it was opened for, also while they change.
  const [stopped, setStopped] = useState<readonly Row[] | null>(null);
  const [tagged, setTagged] = useState<readonly Row[] | null>(null);
  const isAdmin = useIsAdmin();
  const rows = [...selected.rows.values()];
  const stoppable = rows.filter(canStop);
  const compare = () => {
    // The older one is the base.
    const [base, head] = rows.toSorted((a, b) => a.startedAt.localeCompare(b.startedAt));
    if (rows.length !== 2 || !base || !head) return;
    void navigate({
      to: "/$account/compare",
      params: { account },
      search: { a: String(base.number), b: String(head.number) },
    });
  };
  const clear = () => selected.set([]);
  useCommands(
    rows.length > 0
      ? [
          { id: "compare-selected", label: "Compare the selected", keys: "c", group: "Table", run: compare },
          { id: "clear-selected", label: "Clear the selection", keys: "Escape", group: "Table", run: clear },
        ]
      : [],
  );
  if (rows.length === 0) return null;
  const stopRefusal = isAdmin ? "None of the selected clusters still runs" : NOT_ADMIN;
  return (
    <>
      <div className={styles.bulk} role="toolbar" aria-label={`${rows.length} selected`}>
        <span aria-live="polite" className={`num ${styles.bulkCount}`}>
          {rows.length} selected{rows.length === MAX_SELECTED && ", the most at once"}
        </span>
        <Button
          look="primary"
          icon="compare"
          onClick={compare}
          refusal={rows.length === 2 ? null : "Two clusters can be compared"}
        >
          Compare
          <kbd className={styles.key}>c</kbd>
        </Button>
        <Button icon="tag" onClick={() => setTagged(rows)} refusal={isAdmin ? null : NOT_ADMIN}>
          Tag…
        </Button>
        <Button
          icon="stop"
          onClick={() => setStopped(stoppable)}
          refusal={isAdmin && stoppable.length > 0 ? null : stopRefusal}
        >
          Stop {stoppable.length} of {rows.length}…
        </Button>
        <IconButton icon="close" label="Clear the selection" onClick={clear} />
      </div>
      <Suspense>
        {tagged && <TagDialog rows={tagged} onClose={() => setTagged(null)} onDone={onChanged} />}
        {stopped && <StopDialog rows={stopped} onClose={() => setStopped(null)} onDone={onChanged} />}
      </Suspense>
    </>
  );
}
