import { type FormEvent, useState } from "react";
import { useAccount } from "@/data/account.ts";
import { ask } from "@/data/ask.ts";
import { SetTagsDocument, TagsBeforeDocument } from "@/data/gql/graphql.ts";
import { counted } from "@/format/number.ts";
import { Button } from "@/ui/button.tsx";
import { Dialog } from "@/ui/dialog.tsx";
import { Field } from "@/ui/field.tsx";
import { Segmented } from "@/ui/segmented.tsx";
import { parseTag } from "../filter_text.ts";
import type { TaggedRow } from "../rows.ts";
import styles from "./change.module.css";
import { refusalTexts, useChanges } from "./changes.ts";
import { NamedClusters } from "./named_clusters.tsx";
import { withoutTag, withTag } from "./tags.ts";

interface TagDialogProps {
  rows: readonly TaggedRow[];
  onClose(): void;
  onDone(): void;
}

type Mode = "add" | "remove";

/** Adds a tag to the clusters, or takes one away. Their other tags stay. */
export default function TagDialog({ rows, onClose, onDone }: TagDialogProps) {
  const account = useAccount();
  const [mode, setMode] = useState<Mode>("add");
  const [text, setText] = useState("");
  const { isRunning, outcomes, run } = useChanges();
  const tag = parseTag(text.trim());
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    // The mutation replaces all tags, so the current ones are read first: those of the list may be old.
    const ids = rows.map(({ id }) => id);
    const currentTags = ask(TagsBeforeDocument, { ids }, { account });
    const isComplete = await run(rows, async (row) => {
      const found = (await currentTags).data.viewer.account.clusters.nodes.find(({ id }) => id === row.id);
      if (!found) return "The cluster was deleted";
      const tags = mode === "add" ? withTag(found.tags, tag) : withoutTag(found.tags, tag.key);
      const { data } = await ask(SetTagsDocument, { cluster: row.id, tags }, { account });
      return data.setClusterTags.userErrors[0]?.message ?? null;
    });
    onDone();
    if (isComplete) onClose();
  };
  const keys = [...new Set(rows.flatMap(({ tags }) => tags.map(({ key }) => key)))];
  const verb = mode === "add" ? "Add the tag to" : "Remove the tag from";
  return (
    <Dialog title={`Tag ${counted(rows.length, "cluster")}`} isOpen isWide onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <div className={styles.mode}>
          <Segmented
            label="Change"
            value={mode}
            onChange={(next: Mode) => setMode(next)}
            options={[
              { value: "add", label: "Add a tag" },
              { value: "remove", label: "Remove a tag", disabled: keys.length === 0 },
            ]}
          />
        </div>
        <Field
          label="Tag"
          value={text}
          onChange={setText}
          list={keys}
          placeholder="team:risk"
          hint="A word, or a key with its value after a colon. Tags are not stored encrypted"
        />
        <NamedClusters
          rows={rows}
          outcomes={outcomes}
          fact={{
            head: "Tags",
            cell: (row) =>
              row.tags.map(({ key, value }) => (value ? `${key}:${value}` : key)).join(" ") || "none",
          }}
        />
        <ul className={styles.refusals}>
          {refusalTexts(outcomes).map((refusal) => (
            <li key={refusal}>{refusal}</li>
          ))}
        </ul>
        <Button type="submit" look="primary" disabled={isRunning || tag.key === ""}>
          {isRunning
            ? `Changing ${outcomes.length} of ${rows.length}`
            : `${verb} ${counted(rows.length, "cluster")}`}
        </Button>
      </form>
    </Dialog>
  );
}
