import { Link } from "@tanstack/react-router";
import { useAccount } from "@/data/account.ts";
import { ClusterErrorTracebackDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { count } from "@/format/number.ts";
import { clockSeconds, dayAndClock } from "@/format/time.ts";
import errorStyles from "@/panels/errors/errors.module.css";
import { Fact } from "@/panels/errors/fact.tsx";
import { ORIGIN_NAMES } from "@/panels/errors/filter.ts";
import { groupTitle, StatusChip } from "@/panels/errors/group_list.tsx";
import { place } from "@/panels/errors/place.ts";
import { StatusButtons } from "@/panels/errors/status_buttons.tsx";
import { Traceback } from "@/panels/errors/traceback.tsx";
import { Empty, Loaded, Section, Skeleton } from "@/ui/panel.tsx";
import { type Column, Table } from "@/ui/table.tsx";
import { type ClusterError, type ClusterErrorGroup, type HereRow, hereText } from "./here.ts";

interface GroupErrorsProps {
  row: HereRow;
  /** The error whose traceback is shown. Null if none of the group is loaded. */
  error: ClusterError | null;
  now: number;
  onOpen(id: string): void;
}

/** One group of similar errors on this cluster: its facts, a traceback and the failed tasks. */
export function GroupErrors({ row, error, now, onOpen }: GroupErrorsProps) {
  const { group, errors } = row;
  return (
    <>
      {group && <Head group={group} now={now} />}
      <dl className={errorStyles.facts}>
        <Fact name="On this cluster" value={hereText(row)} note={group && ORIGIN_NAMES[group.origin]} />
        {errors.length > 0 && (
          <>
            <Fact
              name="First here"
              value={row.isLeast ? "unknown" : dayAndClock(errors.at(-1)?.at ?? "", "UTC", now)}
              note={row.isLeast && "older errors are not loaded"}
            />
            <Fact name="Last here" value={dayAndClock(errors[0]?.at ?? "", "UTC", now)} />
          </>
        )}
        {group && <Everywhere group={group} now={now} />}
      </dl>
      {error ? (
        <>
          <ErrorTraceback error={error} isNewest={error === errors[0]} />
          <Section title="Failed tasks" sub="the newest first; open one for its traceback" level={3}>
            <Table
              label="Failed tasks"
              columns={COLUMNS}
              rows={errors}
              rowKey={({ id }) => id}
              totalCount={row.isLeast ? null : errors.length}
              isSelected={({ id }) => id === error.id}
              onOpen={({ id }) => onOpen(id)}
              compact={(one) => <Compact error={one} />}
            />
          </Section>
        </>
      ) : (
        <Empty title="The errors of this group are not loaded yet">
          They are older than those that are. Load older errors below the list.
        </Empty>
      )}
    </>
  );
}

function Head({ group, now }: { group: ClusterErrorGroup; now: number }) {
  const account = useAccount();
  return (
    <div className={errorStyles.detailHead}>
      <div className="grow">
        <h3 className={errorStyles.detailTitle}>
          {group.type ?? "Class unknown"} <StatusChip group={group} now={now} />
        </h3>
        <p className={errorStyles.message}>{groupTitle(group.title)}</p>
        <Link className="link small" to="/$account/errors/$group" params={{ account, group: group.id }}>
          The group on all clusters
        </Link>
      </div>
      <StatusButtons id={group.id} status={group.status} />
    </div>
  );
}

function Everywhere({ group, now }: { group: ClusterErrorGroup; now: number }) {
  return (
    <>
      <Fact name="On all clusters" value={count(group.occurrenceCount)} note={`on ${group.clusterCount}`} />
      <Fact name="First seen" value={dayAndClock(group.firstSeenAt, "UTC", now)} />
      <Fact name="Last seen" value={dayAndClock(group.lastSeenAt, "UTC", now)} />
      {group.statusChangedAt && (
        <Fact
          name="Status set"
          value={dayAndClock(group.statusChangedAt, "UTC", now)}
          note={group.statusChangedBy ? `by ${group.statusChangedBy.name}` : "by a former member"}
        />
      )}
    </>
  );
}

function ErrorTraceback({ error, isNewest }: { error: ClusterError; isNewest: boolean }) {
  const query = useAsk(ClusterErrorTracebackDocument, { id: error.id }, { staleSeconds: 3600 });
  return (
    <Loaded name="The traceback" query={query} skeleton={<Skeleton rows={6} columns={3} />}>
      {({ node }) => {
        if (!node || !("traceback" in node)) return <Empty title="This error was deleted" />;
        const which = isNewest ? "the newest error" : "the error";
        return <Traceback {...node} sub={`of ${which} here, ${clockSeconds(error.at)}`} />;
      }}
    </Loaded>
  );
}

function Worker({ error }: { error: ClusterError }) {
  return (
    <span className="truncated" title={place(error)}>
      {place(error)}
    </span>
  );
}

const COLUMNS: Column<ClusterError>[] = [
  {
    id: "at",
    head: "When, UTC",
    width: "minmax(84px, max-content)",
    cell: ({ at }) => <span className="num">{clockSeconds(at)}</span>,
  },
  {
    id: "function",
    head: "Function",
    width: "minmax(100px, 1fr)",
    cell: ({ taskGroup }) =>
      taskGroup ? <code>{taskGroup.prefix}</code> : <span className="faint">unknown</span>,
  },
  {
    id: "task",
    head: "Task",
    width: "minmax(140px, 1.6fr)",
    cell: ({ key }) => (
      <code className="truncated" title={key}>
        {key}
      </code>
    ),
  },
  { id: "worker", head: "Worker", width: "minmax(140px, 1.4fr)", cell: (error) => <Worker error={error} /> },
  {
    id: "retries",
    head: "Retries",
    width: "76px",
    align: "end",
    cell: ({ retries }) => <span className={retries === 0 ? "faint" : undefined}>{count(retries)}</span>,
  },
];

function Compact({ error }: { error: ClusterError }) {
  return (
    <>
      <div className="truncated">
        {clockSeconds(error.at)} · <code>{error.key}</code>
      </div>
      <div className="muted small truncated">{place(error)}</div>
    </>
  );
}
