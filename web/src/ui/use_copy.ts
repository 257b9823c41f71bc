import { useState } from "react";
import type { IconName } from "./icon.tsx";

interface Copy {
  /** Copies a text, which may still be on its way. `label` tells several copies of one place apart. */
  copy(text: string | Promise<string>, label?: string): Promise<void>;
  /** Returns the icon and the words of a control: its own, or the outcome of the last copy. */
  look(label: string, icon?: IconName): { icon: IconName; words: string };
}

/** Copies to the clipboard, and shows for a moment whether that was done. */
export function useCopy(): Copy {
  const [last, setLast] = useState<{ label?: string | undefined; isDone: boolean } | null>(null);
  return {
    async copy(text, label) {
      let isDone = true;
      try {
        await navigator.clipboard.writeText(await text);
      } catch {
        // Browsers refuse it on pages without TLS that are not of this machine.
        isDone = false;
      }
      setLast({ label, isDone });
      setTimeout(() => setLast(null), 2500);
    },
    look(label, icon = "copy") {
      if (last === null || (last.label !== undefined && last.label !== label)) return { icon, words: label };
      return last.isDone ? { icon: "check", words: "Copied" } : { icon: "close", words: "Not copied" };
    },
  };
}
