import { useState } from "react";
import { useAccount } from "@/data/account.ts";
import { ask } from "@/data/ask.ts";
import { CreateFirstTokenDocument, type TokenScope } from "@/data/gql/graphql.ts";
import { Button } from "@/ui/button.tsx";
import { CopyButton } from "@/ui/copy_button.tsx";
import { Icon } from "@/ui/icon.tsx";
import styles from "./first_run.module.css";

interface TokenStepProps {
  /** The rights of the viewer's role. Null while it is being asked for. */
  scopes: readonly TokenScope[] | null;
  server: string;
  token: string | null;
  onToken(token: string): void;
}

/** The token with which clusters report. Only users who may create tokens for others create it here. */
export function TokenStep({ scopes, server, token, onToken }: TokenStepProps) {
  const account = useAccount();
  const [isBusy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState<string | null>(null);
  const create = async () => {
    setBusy(true);
    setRefusal(null);
    try {
      const input = { label: "First cluster", scopes: ["INGEST" as const] };
      const { data, errors } = await ask(CreateFirstTokenDocument, { input }, { account });
      const { secret, userErrors } = data.createToken;
      if (secret) onToken(secret);
      else setRefusal(userErrors[0]?.message ?? errors[0]?.message ?? "The server created no token.");
    } catch (error) {
      setRefusal(error instanceof Error ? error.message : String(error));
    }
    setBusy(false);
  };
  if (token) {
    return (
      <>
        <p className={styles.note}>It can report and nothing else.</p>
        <div className={styles.token}>
          <code className={styles.secret}>{token}</code>
          <CopyButton text={token} />
          <span className={styles.once}>
            <Icon name="check" /> Shown only this once
          </span>
        </div>
      </>
    );
  }
  if (scopes?.includes("ADMIN")) {
    return (
      <>
        <p className={styles.note}>
          It can report and nothing else, so it may lie on machines that many people use.
        </p>
        <div className={styles.token}>
          <Button look="primary" icon="plus" disabled={isBusy} onClick={() => void create()}>
            Create a token
          </Button>
          {refusal && (
            <span role="alert" className={styles.refusal}>
              {refusal}
            </span>
          )}
        </div>
      </>
    );
  }
  if (scopes && !scopes.includes("READ")) return null;
  return (
    <p className={styles.note}>
      Owners and admins create tokens here. Members run <code>galvo login --server {server}</code>, which
      leads to a page that activates a token of their own. Viewers and guests cannot send reports.
    </p>
  );
}
