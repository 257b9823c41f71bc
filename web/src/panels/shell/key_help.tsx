import { useState } from "react";
import { Button } from "@/ui/button.tsx";
import { areKeysOn, type Command, setKeysOn, useAllCommands } from "@/ui/commands.ts";
import { Dialog } from "@/ui/dialog.tsx";
import styles from "./palette.module.css";

/** All keys of the page, and the switch that turns single keys off. */
export default function KeyHelp({ onClose }: { onClose(): void }) {
  const commands = useAllCommands().filter(({ keys }) => keys);
  const [isOn, setOn] = useState(areKeysOn());
  const groups = [...new Set(commands.map(({ group }) => group))];
  return (
    <Dialog title="Keys" isOpen onClose={onClose}>
      {groups.map((group) => (
        <section key={group} className={styles.group}>
          <h3 className="h3">{group}</h3>
          <dl className={styles.keys}>
            {commands
              .filter((command) => command.group === group)
              .map((command) => (
                <Row key={command.id} command={command} />
              ))}
          </dl>
        </section>
      ))}
      <p className="faint small">Ctrl K opens the search also while keys are off.</p>
      <Button
        size="small"
        onClick={() => {
          setKeysOn(!isOn);
          setOn(!isOn);
        }}
      >
        {isOn ? "Turn single keys off" : "Turn single keys on"}
      </Button>
    </Dialog>
  );
}

function Row({ command }: { command: Command }) {
  return (
    <>
      <dt>
        {command.keys?.split(" ").map((key) => (
          <kbd key={key} className={styles.key}>
            {key}
          </kbd>
        ))}
      </dt>
      <dd>{command.label}</dd>
    </>
  );
}
