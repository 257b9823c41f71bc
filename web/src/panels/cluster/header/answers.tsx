import { Link } from "@tanstack/react-router";
import { useAccount } from "@/data/account.ts";
import { ClusterComparisonAnswersDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { TABS } from "@/routes/cluster/tabs.ts";
import { isLive } from "@/ui/state.tsx";
import { VerdictMark } from "@/ui/verdict.tsx";
import styles from "./answers.module.css";
import { costAnswer, type ShownAnswer, shownAnswer } from "./answers.ts";
import type { HeaderCluster } from "./shown.ts";

/** The five questions that are asked of every cluster, with the server's answers. */
export function Answers({ cluster }: { cluster: HeaderCluster }) {
  const { finished, exceptions, topTime, cost, whyRunning } = cluster.answers;
  const live = isLive(cluster.state);
  const shown: ShownAnswer[] = [
    shownAnswer(
      { id: "finished", question: live ? "Will it finish?" : "Did it finish?", tab: null },
      finished,
    ),
    shownAnswer({ id: "exceptions", question: "What failed?", tab: "errors" }, exceptions),
    shownAnswer({ id: "time", question: "What takes the time?", tab: "functions" }, topTime),
    costAnswer(cost),
  ];
  if (live) {
    shown.push(shownAnswer({ id: "running", question: "Why is it still running?", tab: null }, whyRunning));
  }
  return (
    <section className={styles.answers} aria-label="Answers">
      {shown.map((answer) => (
        <AnswerCell key={answer.id} answer={answer} number={cluster.number} />
      ))}
      {!live && <WhatChanged cluster={cluster} />}
    </section>
  );
}

const CHANGED = { id: "changed", question: "What changed?", tab: "environment" } as const;

function WhatChanged({ cluster }: { cluster: HeaderCluster }) {
  const query = useAsk(ClusterComparisonAnswersDocument, { id: cluster.id });
  const answer = query.data?.data.cluster?.answers.whatChanged;
  const shown: ShownAnswer = answer
    ? shownAnswer(CHANGED, answer)
    : {
        ...CHANGED,
        verdict: "UNKNOWN",
        head: query.error ? "The comparison did not load" : "Comparing…",
        isEstimated: false,
        text: query.error?.message ?? "",
        tab: null,
      };
  return <AnswerCell answer={shown} number={cluster.number} />;
}

function AnswerCell({ answer, number }: { answer: ShownAnswer; number: number }) {
  const account = useAccount();
  const tab = TABS.find(({ name }) => name === answer.tab);
  return (
    <div className={styles.answer}>
      <div className={styles.question}>
        <VerdictMark verdict={answer.verdict} />
        {answer.question}
      </div>
      <div className={styles.head}>
        {answer.head}
        {answer.isEstimated && (
          <span className={styles.estimate} title="By the server's estimate, because the account has no rate">
            {" "}
            est.
          </span>
        )}
      </div>
      {(answer.text || tab) && (
        <p>
          {answer.text}{" "}
          {tab && (
            <Link
              className="link"
              to="/$account/clusters/$number/$tab"
              params={{ account, number: String(number), tab: tab.name }}
              search={(search) => search}
              resetScroll={false}
            >
              {tab.label}
            </Link>
          )}
        </p>
      )}
    </div>
  );
}
