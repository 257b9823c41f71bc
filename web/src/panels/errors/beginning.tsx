import { Link } from "@tanstack/react-router";
import { useAccount } from "@/data/account.ts";
import { ErrorGroupBeginningDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { dayAndClock, inSentence } from "@/format/time.ts";
import { quantity } from "@/panels/cluster/header/answers.ts";
import { baselineOf } from "@/panels/cluster/header/baseline.ts";
import { buttonClass } from "@/ui/button.tsx";
import { Icon } from "@/ui/icon.tsx";
import { Empty, Loaded, Section, Skeleton } from "@/ui/panel.tsx";
import { VerdictMark } from "@/ui/verdict.tsx";
import styles from "./errors.module.css";

/** The differences between the cluster of the first error and the run before it, as the server tells them. */
export function Beginning({ id }: { id: string }) {
  const account = useAccount();
  const query = useAsk(ErrorGroupBeginningDocument, { id }, { staleSeconds: 300 });
  return (
    <Loaded name="The changes" query={query} skeleton={<Skeleton rows={3} columns={3} />}>
      {({ node }) => {
        const first = node && "occurrences" in node ? node.occurrences.nodes[0] : undefined;
        if (!first) return null;
        const { cluster } = first;
        const { whatChanged } = cluster.answers;
        const { verdict, headline, evidence } = whatChanged;
        const before = baselineOf(whatChanged);
        return (
          <Section
            title="What changed when it began"
            sub={
              <>
                <Link
                  className="link"
                  to="/$account/clusters/$number"
                  params={{ account, number: String(cluster.number) }}
                >
                  {cluster.name ?? cluster.schedulerId}
                </Link>
                , {inSentence(dayAndClock(first.at))}, the oldest error that is stored
              </>
            }
            actions={
              before && (
                <Link
                  to="/$account/compare"
                  params={{ account }}
                  search={{ a: String(before.number), b: String(cluster.number) }}
                  className={buttonClass()}
                >
                  <Icon name="compare" />
                  Compare
                </Link>
              )
            }
          >
            {verdict === "UNKNOWN" ? (
              <Empty title={headline} />
            ) : (
              <div className={styles.changes}>
                <p className={styles.change}>
                  <VerdictMark verdict={verdict} />
                  {/* The changes stand below, each in a line. */}
                  <strong>{headline.replace(/: [^;]+/, "")}</strong>
                </p>
                {evidence.map(({ label, value, unit }) => (
                  <p key={`${label} ${value}`} className={styles.change}>
                    <span />
                    <span className="grow">{label}</span>
                    {value !== null && unit !== null && <span className="num">{quantity(value, unit)}</span>}
                  </p>
                ))}
              </div>
            )}
          </Section>
        );
      }}
    </Loaded>
  );
}
