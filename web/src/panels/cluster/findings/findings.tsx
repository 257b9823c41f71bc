import { useState } from "react";
import { ClusterComparisonAnswersDocument, ClusterHeaderDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { type Answer, evidenceText, splitHeadline, worstFirst } from "@/panels/cluster/header/answers.ts";
import type { ShownCluster } from "@/routes/cluster/tabs.ts";
import { Button } from "@/ui/button.tsx";
import { Empty, Loaded, QueryState, Section } from "@/ui/panel.tsx";
import { VerdictMark } from "@/ui/verdict.tsx";
import styles from "./findings.module.css";

const MOST = 5;

/** The answers that need attention, the worst first, and the others on demand. */
export function Findings({ cluster }: { cluster: ShownCluster }) {
  // The page has asked for the header by the number in its address: the answer is in the cache.
  const header = useAsk(ClusterHeaderDocument, { id: String(cluster.number) });
  const compared = useAsk(ClusterComparisonAnswersDocument, { id: cluster.id }, { enabled: !cluster.isLive });
  const [showsAll, setShowsAll] = useState(false);
  const own = header.data?.data.cluster?.answers;
  if (!own) {
    return (
      <Loaded name="The answers" query={header}>
        {() => null}
      </Loaded>
    );
  }
  const { whatChanged, slower, scaling } = compared.data?.data.cluster?.answers ?? {};
  const further = [own.spill, own.cpu, own.gil, own.eventLoop, own.network, slower, scaling].filter(
    (answer) => answer !== undefined,
  );
  const findings = worstFirst(further.filter(({ verdict }) => verdict === "BAD" || verdict === "NOTICE"));
  const first = [own.finished, own.exceptions, own.topTime, own.cost, own.whyRunning, whatChanged];
  const all = worstFirst([...first.filter((answer) => answer !== undefined), ...further]);
  // Without the comparison, nothing may stand out only because nobody looked.
  const isKnown = cluster.isLive || compared.data !== undefined;
  const shown = showsAll ? all : findings.slice(0, MOST);
  return (
    <Section title={showsAll ? `All ${all.length} answers` : "What stands out"}>
      {/* These answers are listed with the others; here it is said if their query failed. */}
      {!cluster.isLive && <QueryState name="The comparison with earlier runs" query={compared} />}
      {shown.length === 0 && isKnown && (
        <Empty title="Nothing does">No answer beyond the five above needs attention.</Empty>
      )}
      {shown.length > 0 && (
        <ul className={styles.list}>
          {shown.map((answer) => (
            <Finding key={answer.headline} answer={answer} />
          ))}
        </ul>
      )}
      <Button look="ghost" size="small" onClick={() => setShowsAll(!showsAll)}>
        {showsAll ? "What stands out" : `All ${all.length} answers`}
      </Button>
    </Section>
  );
}

function Finding({ answer }: { answer: Answer }) {
  const { head, rest } = splitHeadline(answer.headline);
  const evidence = evidenceText(answer, 2);
  return (
    <li>
      <VerdictMark verdict={answer.verdict} size={14} />
      <h3 className="h3">{head}</h3>
      {(rest || evidence) && (
        <p>
          {rest}
          {rest && evidence && <br />}
          {evidence}
        </p>
      )}
    </li>
  );
}
