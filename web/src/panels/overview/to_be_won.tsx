import type { OverviewToBeWonQuery } from "@/data/gql/graphql.ts";
import type { Asked } from "@/data/queries.ts";
import { threadTimeInWords } from "@/format/duration.ts";
import { costText } from "@/format/money.ts";
import { count, counted } from "@/format/number.ts";
import { Empty, Loaded, Section } from "@/ui/panel.tsx";
import styles from "./overview.module.css";

interface ToBeWonProps {
  words: string;
  query: Asked<OverviewToBeWonQuery>;
}

/** The effect that stopping idle clusters would have had, as an upper bound. */
export function ToBeWon({ words, query }: ToBeWonProps) {
  return (
    <Loaded name="The back-test of idle clusters" query={query}>
      {({ viewer }) => {
        const { idleBacktest: backtest, idlePolicy } = viewer.account;
        if (!backtest) return null;
        const saved = costText(backtest.costsSaved);
        const waiting = backtest.affectedComputations.totalCount;
        return (
          <Section title={`To be won in ${words}`}>
            {backtest.stops === 0 ? (
              <Empty title="No cluster was without work for an hour" />
            ) : (
              <div className={styles.won}>
                <span className={styles.wonHead}>
                  <strong>Stop clusters after an hour without work</strong>
                  <strong className="num">
                    {saved ? `≤ ${saved.text}${saved.isEstimated ? " est." : ""}` : "≤ nothing"}
                  </strong>
                </span>
                <span className="muted small">
                  {counted(backtest.clustersStopped, "cluster")}, {counted(backtest.stops, "time")},{" "}
                  {threadTimeInWords(backtest.threadSecondsSaved)}. {counted(waiting, "computation")} would
                  have had to wait for a new one.
                </span>
              </div>
            )}
            <p className="faint small">
              {backtest.isComplete
                ? `All ${count(backtest.clusters)} clusters that started then were examined.`
                : `The ${count(backtest.clusters)} clusters that started last were examined, not all.`}
              {backtest.clustersWithoutHistory > 0 &&
                ` The busy times of ${count(backtest.clustersWithoutHistory)} are unknown, and count as no stop.`}
              {idlePolicy.timeoutSeconds === null && " No idle policy is set."}
            </p>
          </Section>
        );
      }}
    </Loaded>
  );
}
