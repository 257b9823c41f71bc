import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useAccount } from "@/data/account.ts";
import { ask } from "@/data/ask.ts";
import {
  type ErrorGroupStatus,
  type ErrorGroupTriageStatus,
  SetErrorStatusDocument,
  ShellDocument,
} from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { Button } from "@/ui/button.tsx";
import styles from "./errors.module.css";
import { nextStatuses } from "./filter.ts";

const VERBS: Record<ErrorGroupTriageStatus, string> = {
  RESOLVED: "Resolve",
  IGNORED: "Ignore",
  OPEN: "Open again",
};

/** Changes the status of the group, for those who may. For others the buttons say who may. */
export function StatusButtons({ id, status }: { id: string; status: ErrorGroupStatus }) {
  const account = useAccount();
  const client = useQueryClient();
  const viewer = useAsk(ShellDocument, {}).data?.data.viewer;
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const mayChange = viewer?.scopes.includes("ADMIN") ?? false;
  const change = async (next: ErrorGroupTriageStatus) => {
    setBusy(true);
    setProblem(null);
    try {
      const { data, errors } = await ask(SetErrorStatusDocument, { group: id, status: next }, { account });
      const refusal = data.setErrorGroupStatus?.userErrors[0]?.message ?? errors[0]?.message;
      if (refusal) setProblem(refusal);
      else await client.invalidateQueries();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    } finally {
      setBusy(false);
    }
  };
  const withheld = "Owners and admins of the account can change the status.";
  return (
    <span className={styles.status}>
      {nextStatuses(status)
        .toReversed()
        .map((next) => (
          <Button
            key={next}
            look={next === "RESOLVED" ? "primary" : "normal"}
            {...(next === "RESOLVED" ? { icon: "check" as const } : {})}
            disabled={isBusy || !mayChange}
            title={viewer && !mayChange ? withheld : undefined}
            onClick={() => void change(next)}
          >
            {VERBS[next]}
          </Button>
        ))}
      {viewer && !mayChange && <span className="faint small">{withheld}</span>}
      {problem && (
        <span className={styles.problem} role="alert">
          {problem}
        </span>
      )}
    </span>
  );
}
