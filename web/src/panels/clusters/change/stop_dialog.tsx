import { useState } from "react";
import { useAccount } from "@/data/account.ts";
import { ask } from "@/data/ask.ts";
import { StopClusterDocument } from "@/data/gql/graphql.ts";
import { counted } from "@/format/number.ts";
import { Button } from "@/ui/button.tsx";
import { Dialog } from "@/ui/dialog.tsx";
import { Field } from "@/ui/field.tsx";
import type { StoppedRow } from "../rows.ts";
import styles from "./change.module.css";
import { refusalTexts, useChanges } from "./changes.ts";
import { NamedClusters } from "./named_clusters.tsx";

interface StopDialogProps {
  rows: readonly StoppedRow[];
  onClose(): void;
  onDone(): void;
}

/** Names the clusters that stop, their users, and what is lost. */
export default function StopDialog({ rows, onClose, onDone }: StopDialogProps) {
  const account = useAccount();
  const [reason, setReason] = useState("");
  const { isRunning, outcomes, run } = useChanges();
  const stop = async () => {
    const isComplete = await run(rows, async (row) => {
      const variables = { cluster: row.id, reason: reason.trim() || null };
      const { data } = await ask(StopClusterDocument, variables, { account });
      return data.setDesiredState.userErrors[0]?.message ?? null;
    });
    onDone();
    if (isComplete) onClose();
  };
  const name = `Stop ${counted(rows.length, "cluster")}`;
  return (
    <Dialog
      title={name}
      isOpen
      isWide
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button
            look="danger"
            icon="stop"
            disabled={isRunning || reason.length > 200}
            onClick={() => void stop()}
          >
            {isRunning ? `Stopping ${outcomes.length} of ${rows.length}` : name}
          </Button>
        </>
      }
    >
      <p className="muted">
        Each scheduler takes the request with its next report, and closes its workers. Tasks that run, and
        results that only the workers hold, are lost.
      </p>
      <NamedClusters
        rows={rows}
        outcomes={outcomes}
        fact={{
          head: "Workers now",
          cell: (row) => (row.now ? counted(row.now.workers, "worker") : "not known"),
        }}
      />
      <Field
        label="Reason, for the users of the clusters"
        value={reason}
        onChange={setReason}
        hint="At most 200 characters. It is not stored encrypted"
        wrong={reason.length > 200 ? `${reason.length} characters are too many` : null}
      />
      <ul className={styles.refusals}>
        {refusalTexts(outcomes).map((text) => (
          <li key={text}>{text}</li>
        ))}
      </ul>
    </Dialog>
  );
}
