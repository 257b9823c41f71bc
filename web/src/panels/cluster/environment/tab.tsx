import { ClusterEnvironmentDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { count } from "@/format/number.ts";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import type { ClusterTabProps } from "@/routes/cluster/tabs.ts";
import { Empty, Loaded, Section, Skeleton, Withheld } from "@/ui/panel.tsx";
import { type Column, Table } from "@/ui/table.tsx";
import { VerdictMark } from "@/ui/verdict.tsx";
import { Missing } from "../receipts/absent.tsx";
import { missing } from "../receipts/receipts.ts";
import styles from "./environment.module.css";
import {
  finding,
  type Known,
  type PackageRow,
  type Processes,
  packageRows,
  processesOf,
  pythonText,
  ROLE_NAMES,
  ROLES,
  versionsLine,
} from "./software.ts";

/** The software of the scheduler, the workers and the clients, its differences first. */
export default function EnvironmentTab({ cluster }: ClusterTabProps) {
  const variables = { id: cluster.id };
  const query = useAsk(ClusterEnvironmentDocument, variables);
  return (
    <Loaded name="The environment" query={query} skeleton={<Skeleton rows={8} columns={4} />}>
      {({ cluster: known }) => {
        if (!known) return null;
        const processes = processesOf(known);
        const { verdict, title } = finding(known.environmentMismatches, processes);
        const packages = packageRows(known);
        return (
          <>
            <Section
              title={
                <span className={styles.finding}>
                  <VerdictMark verdict={verdict} /> {title}
                </span>
              }
              sub={partText(known)}
            >
              <Missing sentences={discarded(known)} />
              {processes.every(({ software }) => software === null) && (
                <Withheld title="Nothing is known about the packages">
                  No process of the cluster has reported its packages, its Python or its system.
                </Withheld>
              )}
              <Table
                label="Processes by software"
                columns={PROCESS_COLUMNS}
                rows={processes}
                rowKey={({ role, software }) => `${role} ${JSON.stringify(software)}`}
                compact={(row) => <CompactProcesses row={row} />}
              />
            </Section>
            <Section
              title="Packages"
              sub="those that differ first"
              actions={
                <TakeAway
                  name="packages"
                  document={ClusterEnvironmentDocument}
                  variables={variables}
                  sheet={sheet(packages)}
                />
              }
            >
              {packages.length === 0 ? (
                <Empty title="No package was reported" />
              ) : (
                <Table
                  label="Packages"
                  columns={PACKAGE_COLUMNS}
                  rows={packages}
                  rowKey={({ name }) => name}
                  compact={(row) => <CompactPackage row={row} />}
                  foot="The packages that Dask looks up on its processes."
                />
              )}
            </Section>
          </>
        );
      }}
    </Loaded>
  );
}

/** Returns the part of the processes that was read, if it is not all of them. */
function partText({ workers, clients }: Known): string | undefined {
  const parts = [
    workers.nodes.length < workers.totalCount &&
      `${workers.nodes.length} of ${count(workers.totalCount)} workers`,
    clients.nodes.length < clients.totalCount &&
      `${clients.nodes.length} of ${count(clients.totalCount)} clients`,
  ].filter((part) => part !== false);
  if (parts.length === 0) return undefined;
  return `packages are compared on all processes; the processes below are the first ${parts.join(" and ")}`;
}

function discarded({ dropped }: Known): string[] {
  const words = (one: string) => ({ one, many: `${one}s`, setting: null });
  return [
    ...missing(undefined, dropped.environments, words("environment")),
    ...missing(undefined, dropped.workers, words("worker")),
    ...missing(undefined, dropped.clients, words("client")),
  ];
}

function sheet(rows: readonly PackageRow[]) {
  return {
    head: ["package", ...ROLES.map((role) => ROLE_NAMES[role].toLowerCase()), "differs"],
    rows: rows.map(
      ({ name, versions, differs }) =>
        [name, ...ROLES.map((role) => versions[role]), differs ? "yes" : "no"] as const,
    ),
  };
}

function Fact({ value }: { value: string | null | undefined }) {
  if (value == null) return <span className="faint">unknown</span>;
  return <span title={value}>{value}</span>;
}

const PROCESS_COLUMNS: Column<Processes>[] = [
  { id: "role", head: "Role", width: "110px", cell: ({ role }) => ROLE_NAMES[role] },
  { id: "count", head: "Processes", width: "84px", align: "end", cell: (row) => count(row.count) },
  {
    id: "python",
    head: "Python",
    width: "minmax(80px, 0.6fr)",
    cell: ({ software }) => (software ? <Fact value={pythonText(software.python)} /> : <em>not reported</em>),
  },
  {
    id: "os",
    head: "System",
    width: "minmax(120px, 1.2fr)",
    cell: ({ software }) => software && <Fact value={systemText(software)} />,
  },
  {
    id: "machine",
    head: "Machine",
    width: "minmax(80px, 0.6fr)",
    cell: ({ software }) => software && <Fact value={software.machine} />,
  },
  {
    id: "executable",
    head: "Executable",
    width: "minmax(120px, 1.4fr)",
    cell: ({ software }) =>
      software && (software.executable === null ? <Fact value={null} /> : <code>{software.executable}</code>),
  },
];

function systemText({ os, osRelease }: NonNullable<Processes["software"]>): string | null {
  return os === null ? null : [os, osRelease].filter(Boolean).join(" ");
}

function CompactProcesses({ row }: { row: Processes }) {
  const { role, software } = row;
  return (
    <>
      <div className="truncated">
        {ROLE_NAMES[role]}, {count(row.count)}:{" "}
        {software ? `Python ${pythonText(software.python) ?? "unknown"}` : "not reported"}
      </div>
      <div className="muted small truncated">
        {software && `${systemText(software) ?? "system unknown"}, ${software.machine ?? "machine unknown"}`}
      </div>
    </>
  );
}

const GREY = new Set(["not installed", "not reported", "not looked up"]);

function Version({ text, differs }: { text: string; differs: boolean }) {
  const look = differs ? styles.differs : GREY.has(text) ? "faint" : "num";
  return (
    <span className={look} title={text}>
      {text}
    </span>
  );
}

const PACKAGE_COLUMNS: Column<PackageRow>[] = [
  {
    id: "name",
    head: "Package",
    width: "minmax(140px, 1fr)",
    cell: ({ name, differs }) => (
      <>
        <code>{name}</code> {differs && <span className={styles.differs}>differs</span>}
      </>
    ),
  },
  ...ROLES.map(
    (role): Column<PackageRow> => ({
      id: role,
      head: ROLE_NAMES[role],
      width: "minmax(120px, 1fr)",
      cell: ({ versions, differs }) => <Version text={versions[role]} differs={differs} />,
    }),
  ),
];

function CompactPackage({ row }: { row: PackageRow }) {
  return (
    <>
      <div className="truncated">
        <code>{row.name}</code> {row.differs && <span className={styles.differs}>differs</span>}
      </div>
      <div className="muted small truncated">{versionsLine(row)}</div>
    </>
  );
}
