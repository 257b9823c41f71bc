import type { ReactNode } from "react";

/** A fact about a group of errors: its name, its value and a note. */
export function Fact({ name, value, note }: { name: string; value: ReactNode; note?: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <strong className="num">{value}</strong> {note && <span className="muted small">{note}</span>}
      </dd>
    </div>
  );
}
