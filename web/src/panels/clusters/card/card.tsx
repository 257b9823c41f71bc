import { useEffect, useState } from "react";
import { Sparkline } from "@/charts/bars/sparkline.tsx";
import { ClusterCardDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { duration } from "@/format/duration.ts";
import { count } from "@/format/number.ts";
import { clock } from "@/format/time.ts";
import { clusterName, type Row, shortNumber } from "../rows.ts";
import { busyThreads, cardPeriod } from "./busy.ts";
import styles from "./card.module.css";

const AFTER_MS = 300;
const WIDTH = 260;
const HEIGHT = 132;

export interface Pointed {
  row: Row;
  element: HTMLElement;
}

/** A card at the row that is pointed at, after a moment. */
export function HoverCard({ pointed }: { pointed: Pointed | null }) {
  const [shown, setShown] = useState<Pointed | null>(null);
  useEffect(() => {
    if (!pointed) {
      setShown(null);
      return;
    }
    const timer = setTimeout(() => setShown(pointed), AFTER_MS);
    const hide = (event: KeyboardEvent) => event.key === "Escape" && setShown(null);
    addEventListener("keydown", hide);
    return () => {
      clearTimeout(timer);
      removeEventListener("keydown", hide);
    };
  }, [pointed]);
  if (!shown || shown !== pointed) return null;
  return <Card {...shown} />;
}

function Card({ row, element }: Pointed) {
  const place = element.getBoundingClientRect();
  const isAbove = place.bottom + HEIGHT > innerHeight;
  const left = Math.min(place.left + 420, innerWidth - WIDTH - 16);
  const top = isAbove ? place.top - HEIGHT - 4 : place.bottom + 4;
  return (
    <div className={styles.card} role="tooltip" style={{ left, top, width: WIDTH }}>
      <div className={styles.head}>
        <b>
          {clusterName(row)} {shortNumber(row.number)}
        </b>
        <span className="faint num">{duration(row.durationSeconds)}</span>
      </div>
      <Busy row={row} />
    </div>
  );
}

function Busy({ row }: { row: Row }) {
  const { from, bucketSeconds, isCut } = cardPeriod(row.startedAt, row.durationSeconds);
  const query = useAsk(ClusterCardDocument, { id: row.id, from, bucketSeconds });
  const series = query.data?.data.cluster?.series;
  const points = (metric: string) => series?.find((one) => one.metric === metric)?.points ?? [];
  if (!series) {
    return (
      <p className={styles.text}>{query.error || query.data ? "The busy threads did not load" : "Loading"}</p>
    );
  }
  const threads = points("THREADS");
  const values = busyThreads(points("TASKS_PROCESSING"), threads, bucketSeconds);
  const [first, last] = [threads[0], threads.at(-1)];
  if (!first || !last || values.every((value) => value === null)) {
    return <p className={styles.text}>The busy threads were not measured</p>;
  }
  const most = Math.max(...threads.map(({ value }) => value));
  return (
    <>
      <p className={styles.text}>
        Busy threads of {count(most)}
        {isCut && ", last 31 days"}
      </p>
      <Sparkline
        label={`Busy threads of ${count(most)}`}
        values={values}
        width={236}
        height={40}
        limit={most}
      />
      <div className={`${styles.axis} num`}>
        <span>{clock(first.at)}</span>
        <span>{clock(last.at)} UTC</span>
      </div>
    </>
  );
}
