import { useState } from "react";
import { Button } from "@/ui/button.tsx";

/** A button that copies a text, and says so. */
export function Copied({ text, label = "Copy" }: { text: string; label?: string }) {
  const [state, setState] = useState<"ready" | "done" | "refused">("ready");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setState("done");
    } catch {
      // Browsers refuse it on pages without TLS that are not of this machine.
      setState("refused");
    }
    setTimeout(() => setState("ready"), 2500);
  };
  const words = { ready: label, done: "Copied", refused: "Select and copy it" };
  return (
    <Button size="small" icon={state === "done" ? "check" : "copy"} onClick={() => void copy()}>
      <span aria-live="polite">{words[state]}</span>
    </Button>
  );
}
