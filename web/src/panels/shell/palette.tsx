import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import type { ShellQuery } from "@/data/gql/graphql.ts";
import { Dialog } from "@/ui/dialog.tsx";
import { Icon } from "@/ui/icon.tsx";
import { type Entry, useEntries } from "./entries.ts";
import styles from "./palette.module.css";

interface PaletteProps {
  viewer: ShellQuery["viewer"] | null;
  onClose(): void;
}

const STEPS: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };

/** Searches clusters, pages, commands and accounts. */
export default function Palette({ viewer, onClose }: PaletteProps) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useId();
  const box = useRef<HTMLDivElement>(null);
  const { groups, isSearching, failure } = useEntries(text, viewer);
  const entries = groups.flatMap((group) => group.entries);
  const chosen = Math.min(at, Math.max(0, entries.length - 1));
  useEffect(() => {
    box.current?.querySelectorAll("[role=option]")[chosen]?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const run = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    entry.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = STEPS[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setAt((chosen + step + entries.length) % Math.max(1, entries.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(entries[chosen]);
    }
  };
  const current = entries[chosen];
  return (
    <Dialog title="Search or jump to" hidesTitle isOpen onClose={onClose}>
      <input
        className={styles.input}
        role="combobox"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={current ? `${list}-${current.id}` : undefined}
        aria-label="Search or jump to"
        placeholder="A cluster, its number, or a page"
        maxLength={200}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div className={styles.list} id={list} role="listbox" aria-label="Results" ref={box} tabIndex={-1}>
        {groups.map(({ name, entries: some }) => (
          <div role="group" aria-label={name} key={name}>
            <div className={styles.heading} aria-hidden="true">
              {name}
            </div>
            {some.map((entry) => (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the field handles the keys
              <div
                key={entry.id}
                id={`${list}-${entry.id}`}
                role="option"
                aria-selected={entry === current}
                className={styles.option}
                onClick={() => run(entry)}
                onMouseMove={() => setAt(entries.indexOf(entry))}
              >
                <Icon name={entry.icon} />
                <span className="grow truncated">{entry.label}</span>
                {entry.detail && <span className="faint small num">{entry.detail}</span>}
              </div>
            ))}
          </div>
        ))}
      </div>
      <p className={styles.status} role="status">
        {failure ?? (isSearching ? "Searching" : entries.length === 0 ? `Nothing is called “${text}”` : "")}
      </p>
    </Dialog>
  );
}
