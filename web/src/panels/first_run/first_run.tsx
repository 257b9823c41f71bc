import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useEffect, useState } from "react";
import { useAccount } from "@/data/account.ts";
import { basePath } from "@/data/base.ts";
import { FirstReportDocument, type FirstRunQuery } from "@/data/gql/graphql.ts";
import { useLive } from "@/live/use_live.ts";
import { Page } from "@/panels/shell/page.tsx";
import { useShell } from "@/panels/shell/use_shell.ts";
import { CopyButton } from "@/ui/copy_button.tsx";
import { Segmented } from "@/ui/segmented.tsx";
import { Accepted } from "./accepted.tsx";
import { commands, serverAddress, WAY_NAMES, WAY_NOTES, WAYS, type Way } from "./commands.ts";
import styles from "./first_run.module.css";
import { TokenStep } from "./token_step.tsx";
import { Waiting } from "./waiting.tsx";

/** The page of an account without clusters: a token, the commands, and the wait for the first report. */
export default function FirstRun({ account: known }: { account: FirstRunQuery["viewer"]["account"] }) {
  const [token, setToken] = useState<string | null>(null);
  const [way, setWay] = useState<Way>("notebook");
  const shell = useShell();
  const scopes = shell.data?.data.viewer.scopes ?? null;
  const server = serverAddress(location.origin, basePath);
  const found = useFirstReport(known.liveCursor);
  const text = commands(way, server, token);
  return (
    <Page title="First cluster">
      <div className={styles.page}>
        <div>
          <h1 className={styles.title}>Connect your first cluster</h1>
          <p className={styles.lead}>
            Two lines in a notebook. Then you see here whether it finished, what failed, what takes the time
            and what it cost.
          </p>
        </div>
        <ol className={styles.steps}>
          <Step title="Create a token for clusters">
            <TokenStep scopes={scopes} server={server} token={token} onToken={setToken} />
          </Step>
          <Step
            title="Connect"
            tools={
              <Segmented
                label="Way of connecting"
                value={way}
                onChange={(next: Way) => setWay(next)}
                options={WAYS.map((value) => ({ value, label: WAY_NAMES[value] }))}
              />
            }
          >
            <div className={styles.code}>
              {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a wide line is scrolled by keys */}
              <pre tabIndex={0} className="mono">
                {text}
              </pre>
              <CopyButton text={text} />
            </div>
            <p className={styles.note}>{WAY_NOTES[way]}</p>
          </Step>
          <Step title="Run something">
            <Waiting found={found} server={server} />
          </Step>
        </ol>
        <Accepted policies={known.dataPolicies} />
      </div>
    </Page>
  );
}

interface StepProps {
  title: string;
  tools?: ReactNode;
  children: ReactNode;
}

function Step({ title, tools, children }: StepProps) {
  return (
    <li className={styles.step}>
      <div className={styles.head}>
        <h2 className="h3">{title}</h2>
        <span className="grow" />
        {tools}
      </div>
      {children}
    </li>
  );
}

/** The time for which the arrival of the report is shown before the cluster's page opens. */
const SHOWN_MS = 250;

/** Opens the cluster of the first report. Returns its name as soon as the report arrived. */
function useFirstReport(after: string): string | null {
  const account = useAccount();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [found, setFound] = useState<{ number: number; name: string } | null>(null);
  useLive(
    FirstReportDocument,
    {},
    {
      enabled: found === null,
      after,
      cursor: (data) => data.clusters.cursor,
      onPayload: ({ clusters: { cluster } }) =>
        setFound((known) => known ?? { number: cluster.number, name: cluster.name ?? cluster.schedulerId }),
    },
  );
  useEffect(() => {
    if (!found) return;
    const timer = setTimeout(() => {
      void navigate({ to: "/$account/clusters/$number", params: { account, number: String(found.number) } });
      // Everything that was asked for is of an account without clusters.
      void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] === account });
    }, SHOWN_MS);
    return () => clearTimeout(timer);
  }, [found, account, navigate, client]);
  return found?.name ?? null;
}
