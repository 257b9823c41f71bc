import type { ClusterPrivacyQuery, DataClass } from "@/data/gql/graphql.ts";
import { count, counted } from "@/format/number.ts";

type Cluster = NonNullable<ClusterPrivacyQuery["cluster"]>;
export type Receipt = Cluster["privacy"]["classes"][number];
type Dropped = Cluster["dropped"];

/** A class of data in words. */
interface ClassText {
  name: string;
  contents: string;
  /** The setting by which a scheduler withholds the class. Absent if only the account can refuse it. */
  setting?: string;
}

export const CLASSES: Record<DataClass, ClassText> = {
  BASIC: { name: "Cluster", contents: "the cluster, workers, clients, packages, measurements, usage" },
  TASKS: { name: "Tasks", contents: "task groups, computations, spans, time and usage by function" },
  DASK_ERRORS: {
    name: "Errors of Dask",
    contents: "failures of Dask itself",
    setting: "galvo.errors.transmit",
  },
  USER_ERRORS: {
    name: "Errors of your code",
    contents: "exceptions with messages and tracebacks",
    setting: "galvo.errors.transmit",
  },
  CODE: {
    name: "Code",
    contents: "code that called Dask, source lines in tracebacks, profiles, logs and events",
    setting: "galvo.computation.code.transmit",
  },
  PROFILES: {
    name: "Profiles",
    contents: "the lines of code that threads were in",
    setting: "galvo.profile.transmit",
  },
  EVENTS: { name: "Events", contents: "what was logged with log_event", setting: "galvo.events.allow" },
  LOGS: {
    name: "Logs",
    contents: "log lines of the scheduler, workers and nannies",
    setting: "galvo.logs.transmit",
  },
};

export const STANDINGS = {
  stored: "stored",
  partly: "stored in part",
  withheld: "withheld",
  refused: "refused",
  none: "nothing sent",
  unreported: "not reported",
} as const;

export type Standing = keyof typeof STANDINGS;

/** Returns what became of a class of data. */
export function standing({ sent, withheld, dropped, accepted }: Receipt): Standing {
  if (sent === null) return accepted ? "unreported" : "refused";
  const away = (withheld ?? 0) + (dropped ?? 0);
  if (sent > (dropped ?? 0)) return away > 0 ? "partly" : "stored";
  if (!accepted || (dropped ?? 0) > 0) return "refused";
  return away > 0 ? "withheld" : "none";
}

/** Returns the finding about all classes as a sentence. */
export function finding(receipts: readonly Receipt[]): string {
  const standings = receipts.map((receipt) => ({ receipt, at: standing(receipt) }));
  if (standings.every(({ at }) => at === "unreported"))
    return "The scheduler did not report which data it sent";
  const away = standings
    .filter(({ at }) => at === "partly" || at === "withheld" || at === "refused")
    .map(({ receipt }, index) => {
      const { name } = CLASSES[receipt.class];
      return index === 0 ? name : name.slice(0, 1).toLowerCase() + name.slice(1);
    });
  if (away.length > 0)
    return `${new Intl.ListFormat("en").format(away)}: withheld or refused, in full or in part`;
  return standings.some(({ at }) => at === "stored")
    ? "All that was sent is stored, and nothing was withheld"
    : "Nothing was sent yet";
}

/** Returns the sum over the classes that report it. Null if none does. */
export function sumOf(
  receipts: readonly Receipt[],
  of: "sent" | "bytes" | "withheld" | "dropped",
): number | null {
  const known = receipts.flatMap((receipt) => receipt[of] ?? []);
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0);
}

/** Returns the time for which a class is kept, given the days of the account and those of its quota. */
export function keptFor(days: number | null, most: number | null): string {
  if (days === null) return most === null ? "default" : `default, at most ${counted(most, "day")}`;
  return counted(most === null ? days : Math.min(days, most), "day");
}

const DROPPED_NAMES: Record<keyof Dropped, [one: string, many: string]> = {
  computations: ["computation", "computations"],
  taskGroups: ["task group", "task groups"],
  errors: ["error", "errors"],
  environments: ["environment", "environments"],
  workers: ["worker", "workers"],
  clients: ["client", "clients"],
  threadHistory: ["change of the thread count", "changes of the thread count"],
  samples: ["sample", "samples"],
  spans: ["span", "spans"],
  fineMetrics: ["fine performance metric", "fine performance metrics"],
  code: ["text of code", "texts of code"],
  profiles: ["profile window", "profile windows"],
  events: ["event", "events"],
  logs: ["log line", "log lines"],
  usage: ["hour of usage", "hours of usage"],
  functionActivity: ["minute of threads by function", "minutes of threads by function"],
};

/** Returns the items that the reporter discarded, by kind. */
export function discarded(dropped: Dropped): string[] {
  return (Object.keys(DROPPED_NAMES) as (keyof Dropped)[]).flatMap((kind) => {
    const number = dropped[kind];
    return number > 0 ? [counted(number, ...DROPPED_NAMES[kind])] : [];
  });
}

/** Returns a count that may be unknown. */
export function known(value: number | null): string {
  return value === null ? "unknown" : count(value);
}
