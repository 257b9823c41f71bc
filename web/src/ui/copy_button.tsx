import { useState } from "react";
import { Button, type ButtonLook, type ButtonSize } from "./button.tsx";

interface CopyButtonProps {
  /** The text, or the function that returns it when the button is pressed. */
  text: string | (() => string);
  label?: string;
  look?: ButtonLook;
  size?: ButtonSize;
  /** The label is for screen readers only. */
  isIcon?: boolean;
}

/** A button that copies a text, and says so. */
export function CopyButton({
  text,
  label = "Copy",
  look = "normal",
  size = "small",
  isIcon,
}: CopyButtonProps) {
  const [state, setState] = useState<"ready" | "done" | "refused">("ready");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : text());
      setState("done");
    } catch {
      // Browsers refuse it on pages without TLS that are not of this machine.
      setState("refused");
    }
    setTimeout(() => setState("ready"), 2500);
  };
  const words = { ready: label, done: "Copied", refused: "Copying was refused" };
  return (
    <Button look={look} size={size} icon={state === "done" ? "check" : "copy"} onClick={() => void copy()}>
      <span aria-live="polite" className={isIcon && state === "ready" ? "hidden" : undefined}>
        {words[state]}
      </span>
    </Button>
  );
}
