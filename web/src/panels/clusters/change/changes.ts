import { useState } from "react";
import { type ChangedRow, clusterName } from "../rows.ts";

export interface Outcome {
  row: ChangedRow;
  /** The reason of a refusal. Null for a change that was made. */
  refusal: string | null;
}

/** Changes several clusters one after another. One that is refused does not keep the others from being changed. */
export function useChanges() {
  const [isRunning, setRunning] = useState(false);
  const [outcomes, setOutcomes] = useState<readonly Outcome[]>([]);
  const run = async <Changed extends ChangedRow>(
    rows: readonly Changed[],
    change: (row: Changed) => Promise<string | null>,
  ) => {
    setRunning(true);
    const done: Outcome[] = [];
    for (const row of rows) {
      const refusal = await change(row).catch((error: unknown) =>
        error instanceof Error ? error.message : String(error),
      );
      done.push({ row, refusal });
      setOutcomes([...done]);
    }
    setRunning(false);
    return done.every((outcome) => outcome.refusal === null);
  };
  return { isRunning, outcomes, run };
}

/** Returns the refusals as lines: `notebook #12: the reason`. */
export function refusalTexts(outcomes: readonly Outcome[]): string[] {
  return outcomes.flatMap(({ row, refusal }) =>
    refusal === null ? [] : [`${clusterName(row)} #${row.number}: ${refusal}`],
  );
}
