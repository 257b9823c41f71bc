import type { Mark } from "@/charts/lanes/types.ts";
import type { ClusterMarksQuery } from "@/data/gql/graphql.ts";
import { byteExponent, bytes, bytesIn } from "@/format/bytes.ts";
import { count, counted, share } from "@/format/number.ts";
import { DEATHS, deathsOf, type EndedWorkers } from "./ended_workers.ts";

export type Marked = NonNullable<ClusterMarksQuery["cluster"]>;

const seconds = (at: string) => Date.parse(at) / 1000;

/** Returns the deaths of workers as marks. */
export function deathMarks({ workers }: EndedWorkers): Mark[] {
  return workers.flatMap(({ id, name, end }): Mark[] => {
    const what = end && DEATHS[end.kind];
    if (!end || !what) return [];
    const memory = end.lastMemory === null ? [] : [memoryText(end.lastMemory, end.lastMemoryShare)];
    const were = end.lostResults === 1 ? "was" : "were";
    const lost = end.lostResults > 0 ? [`${counted(end.lostResults, "result")} ${were} lost with it.`] : [];
    return [
      {
        id,
        at: seconds(end.at),
        kind: "death",
        title: `Worker ${name} ${what}`,
        detail: [...memory, ...lost].join(" "),
      },
    ];
  });
}

/** Returns the errors, the flags and the users' events as marks. */
export function marksOf(cluster: Marked): Mark[] {
  const errors = cluster.errors.nodes.map(
    ({ id, at, type, key }): Mark => ({
      id,
      at: seconds(at),
      kind: "error",
      title: type ?? "Error of unknown class",
      detail: key,
    }),
  );
  const flags = cluster.flags.nodes.map(
    ({ kind, text, since }): Mark => ({
      id: `flag-${kind}-${since}`,
      at: seconds(since),
      kind: "flag",
      title: text,
    }),
  );
  const events = userEvents(cluster).map(
    ({ at, topic }, index): Mark => ({
      id: `event-${index}`,
      at: seconds(at),
      kind: "event",
      title: `Event ${topic}`,
    }),
  );
  return [...errors, ...flags, ...events];
}

const DASK_TOPICS = new Set([
  "all",
  "scheduler",
  "stealing",
  "transfer",
  "missing-data",
  "worker-get-client",
]);

/** Returns the events that a user logged. Dask logs its own under addresses, clients and a few names. */
function userEvents(cluster: Marked) {
  return cluster.events.nodes.filter(
    ({ topic }) => !DASK_TOPICS.has(topic) && !topic.includes("://") && !topic.startsWith("Client-"),
  );
}

/** Returns the last known memory as a sentence, such as `15.3 of 16 GiB, 96 % of its limit.` */
function memoryText(memory: number, part: number | null): string {
  if (part === null || part <= 0) return `It used ${bytes(memory)}.`;
  const limit = memory / part;
  return `${bytesIn(memory, byteExponent(limit))} of ${bytes(limit)}, ${share(part)} of its limit.`;
}

/** Returns the marks in words, with the caps where the lists are longer. */
export function marksNote(cluster: Marked | null, ended: EndedWorkers): string {
  const parts = [
    deathsNote(ended),
    cluster && capped(cluster.errors.totalCount, cluster.errors.nodes.length, "error"),
    cluster && capped(cluster.flags.totalCount, cluster.flags.nodes.length, "flag"),
    cluster && eventsNote(cluster),
  ];
  return parts.filter((part) => part !== null).join(", ");
}

function deathsNote(ended: EndedWorkers): string | null {
  const { died, isLeast } = deathsOf(ended);
  if (died === 0 && !isLeast) return null;
  const among = `${count(ended.workers.length)} of ${count(ended.totalCount)} workers that ended`;
  return counted(died, "death") + (isLeast ? ` among ${among}` : "");
}

function eventsNote(cluster: Marked): string | null {
  const shown = userEvents(cluster).length;
  if (shown === 0) return null;
  const { totalCount, nodes } = cluster.events;
  const among = totalCount > nodes.length ? ` among the newest ${nodes.length}` : "";
  return counted(shown, "event") + among;
}

function capped(total: number, shown: number, noun: string): string | null {
  if (total === 0) return null;
  return shown < total ? `${shown} of ${counted(total, noun)}` : counted(total, noun);
}
