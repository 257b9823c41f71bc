import type { ClusterEnvironmentQuery, ProcessRole, SoftwareFieldsFragment } from "@/data/gql/graphql.ts";
import { count, counted } from "@/format/number.ts";

export type Known = NonNullable<ClusterEnvironmentQuery["cluster"]>;
type Mismatch = Known["environmentMismatches"][number];

export const ROLES: readonly ProcessRole[] = ["SCHEDULER", "WORKER", "CLIENT"];
export const ROLE_NAMES: Record<ProcessRole, string> = {
  SCHEDULER: "Scheduler",
  WORKER: "Workers",
  CLIENT: "Clients",
};

const NOT_INSTALLED = "not installed";
const NOT_REPORTED = "not reported";

/** Returns the versions of a package on the processes of a role. The number of processes tells them apart. */
export function versionsText({ versions }: Mismatch, role: ProcessRole): string {
  const own = versions.filter((version) => version.role === role);
  if (own.length === 0) return NOT_REPORTED;
  const [only] = own;
  if (own.length === 1 && only) return only.version ?? NOT_INSTALLED;
  return own.map(({ version, processes }) => `${version ?? NOT_INSTALLED} on ${count(processes)}`).join(", ");
}

/** Processes of one role with the same software. */
export interface Processes {
  role: ProcessRole;
  /** Null for processes that did not report it. */
  software: SoftwareFieldsFragment | null;
  count: number;
}

const FACTS = ["python", "os", "osRelease", "machine", "executable"] as const;

/** Returns the processes in groups of the same software: of the scheduler, of workers, of clients. */
export function processesOf(known: Pick<Known, "environment" | "workers" | "clients">): Processes[] {
  const groups = new Map<string, Processes>();
  const add = (role: ProcessRole, software: SoftwareFieldsFragment | null) => {
    const key = JSON.stringify([role, software && FACTS.map((name) => software[name])]);
    const group = groups.get(key);
    if (group) group.count += 1;
    else groups.set(key, { role, software, count: 1 });
  };
  add("SCHEDULER", known.environment);
  for (const { environment } of known.workers.nodes) add("WORKER", environment);
  for (const { environment } of known.clients.nodes) add("CLIENT", environment);
  return [...groups.values()];
}

/** Returns the release of Python without what every final release has: `3.11.7`. */
export function pythonText(python: string | null): string | null {
  return python?.replace(/\.final\.0$/, "") ?? null;
}

/** Returns the versions of a package in one line, and one version for all processes that have the same. */
export function versionsLine({ versions }: Pick<PackageRow, "versions">): string {
  const [first, ...others] = ROLES.map((role) => versions[role]);
  if (first && others.every((version) => version === first)) return `${first} on all`;
  return ROLES.map((role) => `${ROLE_NAMES[role]} ${versions[role]}`).join(" · ");
}

export interface Verdict {
  verdict: "GOOD" | "NOTICE" | "UNKNOWN";
  title: string;
}

/** Returns the finding: the packages that differ. Without any, it is good only if all processes are known. */
export function finding(mismatches: readonly unknown[], processes: readonly Processes[]): Verdict {
  const sum = (list: readonly Processes[]) => list.reduce((total, group) => total + group.count, 0);
  const all = sum(processes);
  const unknown = sum(processes.filter(({ software }) => software === null));
  const of =
    unknown === 0 ? "" : `; ${count(unknown)} of ${counted(all, "process", "processes")} did not report`;
  if (mismatches.length > 0) {
    const differ = mismatches.length === 1 ? "differs" : "differ";
    return {
      verdict: "NOTICE",
      title: `${counted(mismatches.length, "package")} ${differ} between processes${of}`,
    };
  }
  if (unknown === all) return { verdict: "UNKNOWN", title: "The software was not reported" };
  if (unknown > 0) return { verdict: "UNKNOWN", title: `No difference is known${of}` };
  return { verdict: "GOOD", title: "All processes have the same versions" };
}

export interface PackageRow {
  name: string;
  versions: Record<ProcessRole, string>;
  differs: boolean;
}

type Packages = { packages: readonly { name: string; version: string | null }[] } | null | undefined;

function versionIn(environment: Packages, name: string): string {
  if (!environment) return NOT_REPORTED;
  const found = environment.packages.find((one) => one.name === name);
  // A process looks up the packages that its version of Dask names.
  return found ? (found.version ?? NOT_INSTALLED) : "not looked up";
}

type Sampled = Pick<Known, "environment" | "environmentMismatches" | "firstWorker" | "firstClient">;

/**
 * Returns the packages of the cluster, those that differ first. A package that does not differ has on all
 * processes the version that it has on the first one.
 */
export function packageRows(known: Sampled): PackageRow[] {
  const first: Record<ProcessRole, Packages> = {
    SCHEDULER: known.environment,
    WORKER: known.firstWorker.nodes[0]?.environment,
    CLIENT: known.firstClient.nodes[0]?.environment,
  };
  const mismatches = new Map(known.environmentMismatches.map((mismatch) => [mismatch.name, mismatch]));
  const names = new Set(mismatches.keys());
  for (const role of ROLES) for (const { name } of first[role]?.packages ?? []) names.add(name);
  // Python has a row of its own above.
  if (!mismatches.has("python")) names.delete("python");
  const rows = [...names].map((name) => {
    const mismatch = mismatches.get(name);
    const version = (role: ProcessRole) =>
      mismatch ? versionsText(mismatch, role) : versionIn(first[role], name);
    return {
      name,
      versions: { SCHEDULER: version("SCHEDULER"), WORKER: version("WORKER"), CLIENT: version("CLIENT") },
      differs: mismatch !== undefined,
    };
  });
  return rows.toSorted((a, b) => Number(b.differs) - Number(a.differs) || (a.name < b.name ? -1 : 1));
}
