import { runningTime } from "@/format/duration.ts";
import { StateLabel } from "@/ui/state.tsx";
import type { Row } from "./rows.ts";

/** The state of a cluster, with the time without work. */
export function State({ row }: { row: Pick<Row, "state" | "idleSeconds"> }) {
  return (
    <StateLabel state={row.state} detail={row.state === "IDLE" ? runningTime(row.idleSeconds) : undefined} />
  );
}
