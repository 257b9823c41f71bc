import { Empty, Withheld } from "@/ui/panel.tsx";
import type { Absence } from "./receipts.ts";

/** The reason why a tab has nothing to show. */
export function Absent({ absence }: { absence: Absence }) {
  const Message = absence.kind === "none" ? Empty : Withheld;
  return <Message title={absence.title}>{absence.text}</Message>;
}

/** The items that are missing, and why. */
export function Missing({ sentences }: { sentences: readonly string[] }) {
  if (sentences.length === 0) return null;
  return (
    <p className="muted small spaced" role="note">
      {sentences.join(" ")}
    </p>
  );
}
