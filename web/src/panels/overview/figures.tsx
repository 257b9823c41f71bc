import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useAccount } from "@/data/account.ts";
import type { OverviewNowQuery, OverviewToBeWonQuery, OverviewUsageQuery } from "@/data/gql/graphql.ts";
import type { Asked } from "@/data/queries.ts";
import { runningTime } from "@/format/duration.ts";
import { costText } from "@/format/money.ts";
import { count, counted } from "@/format/number.ts";
import { dayAndClock, inSentence } from "@/format/time.ts";
import type { Days } from "@/panels/range/range.ts";
import { Button } from "@/ui/button.tsx";
import { reason } from "@/ui/panel.tsx";
import { type VerdictKind, VerdictMark } from "@/ui/verdict.tsx";
import {
  costChange,
  hourly,
  hourlyText,
  IDLE_HOUR_SECONDS,
  type Live,
  type LiveCluster,
  liveFigures,
} from "./arithmetic.ts";
import styles from "./overview.module.css";

interface FigureProps {
  verdict: VerdictKind;
  name: string;
  value: ReactNode;
  unit?: ReactNode;
  children: ReactNode;
}

function Figure({ verdict, name, value, unit, children }: FigureProps) {
  return (
    <div className={styles.figure}>
      <span className={styles.question}>
        <VerdictMark verdict={verdict} />
        {name}
      </span>
      <span className={styles.value}>
        {value} {unit && <small>{unit}</small>}
      </span>
      <p>{children}</p>
    </div>
  );
}

/** A figure while its query is on the way, or after it failed. */
function Absent<Result>({ name, query }: { name: string; query: Asked<Result> }) {
  if (!query.error) {
    return (
      <Figure verdict="UNKNOWN" name={name} value={<span className={styles.bone} aria-hidden="true" />}>
        <span className="hidden">Loading</span>
      </Figure>
    );
  }
  return (
    <Figure verdict="UNKNOWN" name={name} value="–">
      {reason(query.error)}{" "}
      <Button size="small" onClick={() => void query.refetch()}>
        Retry
      </Button>
    </Figure>
  );
}

interface FiguresProps {
  days: Days;
  now: Asked<OverviewNowQuery>;
  usage: Asked<OverviewUsageQuery>;
  before: Asked<OverviewUsageQuery>;
  won: Asked<OverviewToBeWonQuery>;
}

/** The five figures: what runs, what idles, what fails, what was spent and what could have been saved. */
export function Figures({ days, now, usage, before, won }: FiguresProps) {
  const account = now.data?.data.viewer.account;
  const statistics = usage.data?.data.viewer.account.statistics;
  const backtest = won.data?.data.viewer.account;
  return (
    <section className={styles.figures} aria-label="The account in five figures">
      {account ? <Running live={account.live} /> : <Absent name="Running now" query={now} />}
      {account ? <Idle live={account.live} /> : <Absent name="Idle now" query={now} />}
      {account ? <Failing failing={account.failing} days={days} /> : <Absent name="Failing" query={now} />}
      {statistics ? (
        <Spent days={days} costs={statistics.usage.costs} before={costsBefore(days, before)} />
      ) : (
        <Absent name="Spent" query={usage} />
      )}
      {backtest ? (
        <ToBeWonFigure days={days} backtest={backtest.idleBacktest} />
      ) : (
        <Absent name="To be won" query={won} />
      )}
    </section>
  );
}

function costsBefore(days: Days, before: Asked<OverviewUsageQuery>) {
  if (days.before === null) return null;
  return before.data?.data.viewer.account.statistics.usage.costs ?? null;
}

/** Returns the price of an hour of the clusters in a state. Null without any, and if it is not known of all. */
function priceOf({ nodes, totalCount }: Live, state: LiveCluster["state"]): string | null {
  const price = nodes.length < totalCount ? null : hourly(nodes.filter((node) => node.state === state));
  return price && hourlyText(price);
}

function Running({ live }: { live: Live }) {
  const { running, starting, threads, users, isComplete } = liveFigures(live);
  const known = threads === null ? "Threads unknown" : counted(threads, "thread");
  return (
    <Figure
      verdict={running > 0 ? "GOOD" : "FACT"}
      name="Running now"
      value={isComplete ? count(running) : `${count(running)}+`}
      unit={priceOf(live, "RUNNING") ?? (running === 1 ? "cluster" : "clusters")}
    >
      {running > 0 ? `${known} for ${counted(users, "user")}. ` : "No cluster has work. "}
      {starting > 0 && `${count(starting)} more ${starting === 1 ? "is" : "are"} starting. `}
      {!isComplete && `Counted among ${count(live.nodes.length)} of ${count(live.totalCount)} live clusters.`}
    </Figure>
  );
}

function Idle({ live }: { live: Live }) {
  const account = useAccount();
  const { idle, longest, isComplete } = liveFigures(live);
  return (
    <Figure
      verdict={idle > 0 ? "NOTICE" : "GOOD"}
      name="Idle now"
      value={isComplete ? count(idle) : `${count(idle)}+`}
      unit={priceOf(live, "IDLE") ?? (idle === 1 ? "cluster" : "clusters")}
    >
      {longest ? (
        <>
          Longest: <strong>{longest.name ?? longest.schedulerId}</strong>
          {longest.user && ` of ${longest.user.name}`}, {runningTime(longest.idleSeconds)}.{" "}
          <Link className="link" to="/$account/clusters" params={{ account }} search={{ state: "IDLE" }}>
            See idle clusters
          </Link>
        </>
      ) : live.totalCount === 0 ? (
        "No cluster is live."
      ) : (
        "No live cluster is idle."
      )}
    </Figure>
  );
}

type Failing = OverviewNowQuery["viewer"]["account"]["failing"];

function Failing({ failing, days }: { failing: Failing; days: Days }) {
  const account = useAccount();
  if (!failing) {
    return (
      <Figure verdict="UNKNOWN" name="Failing" value="–">
        The groups of errors did not load.
      </Figure>
    );
  }
  const [newest] = failing.nodes;
  return (
    <Figure
      verdict={newest ? "BAD" : "GOOD"}
      name="Failing"
      value={count(failing.totalCount)}
      unit={failing.totalCount === 1 ? "open error" : "open errors"}
    >
      {newest ? (
        <>
          <strong>{newest.type ?? "An error of unknown class"}</strong>, last{" "}
          {inSentence(dayAndClock(newest.lastSeenAt))}.{" "}
          <Link className="link" to="/$account/errors" params={{ account }}>
            See errors
          </Link>
        </>
      ) : (
        `No open error was seen in ${days.words}.`
      )}
    </Figure>
  );
}

type Costs = OverviewUsageQuery["viewer"]["account"]["statistics"]["usage"]["costs"];

function Spent({ days, costs, before }: { days: Days; costs: Costs; before: Costs | null }) {
  const spent = costText(costs);
  const change = before === null || before.length === 0 ? null : costChange(costs, before);
  return (
    <Figure
      verdict="FACT"
      name="Spent"
      value={spent?.text ?? "Nothing"}
      unit={spent?.isEstimated ? "est." : undefined}
    >
      {days.count === null && "Since the account was created."}
      {before?.length === 0 && `Nothing was spent in the ${days.words} before.`}
      {change && `${change} than in the ${days.words} before.`}
    </Figure>
  );
}

type Backtest = OverviewToBeWonQuery["viewer"]["account"]["idleBacktest"];

function ToBeWonFigure({ days, backtest }: { days: Days; backtest: Backtest }) {
  if (!backtest) {
    return (
      <Figure verdict="UNKNOWN" name="To be won" value="–">
        The back-test of idle clusters did not load.
      </Figure>
    );
  }
  const saved = costText(backtest.costsSaved);
  return (
    <Figure
      verdict={backtest.stops > 0 ? "NOTICE" : "GOOD"}
      name="To be won"
      value={saved?.text ?? "Nothing"}
      unit={saved ? `${saved.isEstimated ? "est., " : ""}at most` : undefined}
    >
      {backtest.stops > 0
        ? `By stopping clusters after ${IDLE_HOUR_SECONDS / 3600} hour without work.`
        : `No cluster was without work for an hour in ${days.words}.`}
      {!backtest.isComplete && ` Of the ${count(backtest.clusters)} newest clusters.`}
    </Figure>
  );
}
