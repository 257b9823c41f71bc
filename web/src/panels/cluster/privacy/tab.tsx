import { useState } from "react";
import { ClusterPrivacyDocument, type ClusterPrivacyQuery, type MemberRole } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { bytes } from "@/format/bytes.ts";
import { count, counted } from "@/format/number.ts";
import { useShell } from "@/panels/shell/use_shell.ts";
import { SheetTable } from "@/panels/take_away/sheet_table.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import type { ClusterTabProps } from "@/routes/cluster/tabs.ts";
import { Loaded, Section, Skeleton } from "@/ui/panel.tsx";
import { type Column, Table } from "@/ui/table.tsx";
import styles from "./privacy.module.css";
import {
  CLASSES,
  discarded,
  finding,
  keptFor,
  known,
  type Receipt,
  STANDINGS,
  standing,
  sumOf,
} from "./receipts.ts";

type Cluster = NonNullable<ClusterPrivacyQuery["cluster"]>;
type Account = Cluster["account"];

const REFETCH_SECONDS = 60;

/** The data that is kept of the cluster, the data that was left out, and who may see it. */
export default function PrivacyTab({ cluster }: ClusterTabProps) {
  const shell = useShell();
  const asAdmin = shell.data?.data.viewer.scopes.includes("ADMIN") ?? false;
  const variables = { id: cluster.id, asAdmin };
  const query = useAsk(ClusterPrivacyDocument, variables, {
    enabled: !shell.isPending,
    ...(cluster.isLive ? { refetchSeconds: REFETCH_SECONDS } : {}),
  });
  return (
    <Loaded name="The privacy of the cluster" query={query} skeleton={<Skeleton rows={8} columns={6} />}>
      {(data) =>
        data.cluster && (
          <>
            <Classes cluster={data.cluster} variables={variables} />
            <LeftOut cluster={data.cluster} />
            <Readers account={data.cluster.account} reporter={data.cluster.user?.name ?? null} />
          </>
        )
      }
    </Loaded>
  );
}

interface ClassesProps {
  cluster: Cluster;
  variables: { id: string; asAdmin: boolean };
}

/** The numbers of items of each class of data that were sent, withheld and stored. */
function Classes({ cluster, variables }: ClassesProps) {
  const [isTable, setTable] = useState(false);
  const receipts = cluster.privacy.classes;
  const kept = (receipt: Receipt) => keptOf(cluster.account, receipt);
  const sheet = {
    head: ["class", "state", "sent", "characters", "withheld", "not stored", "account", "kept for"],
    rows: receipts.map((receipt) => [
      CLASSES[receipt.class].name,
      STANDINGS[standing(receipt)],
      receipt.sent,
      receipt.bytes,
      receipt.withheld,
      receipt.dropped,
      acceptance(cluster.account, receipt),
      kept(receipt),
    ]),
  };
  return (
    <Section
      title={finding(receipts)}
      sub="by class of data, as of the last report"
      actions={
        <TakeAway
          name="privacy"
          document={ClusterPrivacyDocument}
          variables={variables}
          sheet={sheet}
          isTable={isTable}
          onTable={setTable}
        />
      }
    >
      {isTable ? (
        <SheetTable label="Classes of data" sheet={sheet} />
      ) : (
        <Table
          label="Classes of data"
          columns={columns(cluster.account, receipts)}
          rows={receipts}
          rowKey={(receipt) => receipt.class}
          hasSums
        />
      )}
      <p className={styles.note}>
        Clusters, their workers and their usage are kept as long as the account; the days of the first class
        are those of its measurements. Owners and admins set what is accepted and for how many days with the
        mutation <code>setDataPolicy</code>.
      </p>
    </Section>
  );
}

function policyOf(account: Account, receipt: Receipt) {
  return account.dataPolicies.find((policy) => policy.class === receipt.class);
}

function acceptance(account: Account, receipt: Receipt): string {
  if (policyOf(account, receipt)?.required) return "always accepts";
  return receipt.accepted ? "accepts" : "refuses";
}

function keptOf(account: Account, receipt: Receipt): string {
  return keptFor(policyOf(account, receipt)?.retentionDays ?? null, account.quota.retentionDays);
}

const AWAY = new Set(["partly", "withheld", "refused"]);

function columns(account: Account, receipts: readonly Receipt[]): Column<Receipt>[] {
  const number = (id: "sent" | "withheld" | "dropped", head: string): Column<Receipt> => ({
    id,
    head,
    width: "96px",
    align: "end",
    sum: known(sumOf(receipts, id)),
    cell: (receipt) => <span className={receipt[id] ? undefined : "faint"}>{known(receipt[id])}</span>,
  });
  const size = sumOf(receipts, "bytes");
  return [
    {
      id: "class",
      head: "Class",
      width: "minmax(220px, 2fr)",
      sum: "All classes",
      cell: (receipt) => (
        <span className={styles.class}>
          {CLASSES[receipt.class].name}
          <span className="faint small truncated" title={CLASSES[receipt.class].contents}>
            {CLASSES[receipt.class].contents}
          </span>
        </span>
      ),
    },
    {
      id: "state",
      head: "State",
      width: "110px",
      cell: (receipt) => {
        const at = standing(receipt);
        return <span className={AWAY.has(at) ? styles.away : undefined}>{STANDINGS[at]}</span>;
      },
    },
    number("sent", "Sent"),
    {
      id: "size",
      head: "Size",
      width: "96px",
      align: "end",
      sum: size === null ? "unknown" : bytes(size),
      cell: (receipt) =>
        receipt.bytes === null ? <span className="faint">unknown</span> : bytes(receipt.bytes),
    },
    number("withheld", "Withheld"),
    number("dropped", "Not stored"),
    {
      id: "account",
      head: "The account",
      width: "120px",
      cell: (receipt) => (
        <span className={receipt.accepted ? undefined : styles.away}>{acceptance(account, receipt)}</span>
      ),
    },
    {
      id: "kept",
      head: "Kept for",
      width: "minmax(90px, 1fr)",
      cell: (receipt) => keptOf(account, receipt),
    },
  ];
}

/** The data that is missing, and the reasons. */
function LeftOut({ cluster }: { cluster: Cluster }) {
  const discards = discarded(cluster.dropped);
  const away = cluster.privacy.classes.filter(
    ({ withheld, dropped }) => (withheld ?? 0) > 0 || (dropped ?? 0) > 0,
  );
  return (
    <Section level={3} title="What was left out">
      <ul className={styles.list}>
        {away.map((receipt) => (
          <Away key={receipt.class} receipt={receipt} />
        ))}
        <li>
          <b>Too much at a time:</b>{" "}
          {discards.length === 0
            ? "the reporter discarded nothing."
            : `the reporter discarded ${list(discards)}.`}
        </li>
        <li>
          <b>Impossible values:</b>{" "}
          {cluster.clampedFields.length === 0
            ? "none were reported."
            : "these fields were limited to possible values before they were stored: "}
          {cluster.clampedFields.map((field, index) => (
            <span key={field}>
              {index > 0 && ", "}
              <code>{field}</code>
            </span>
          ))}
        </li>
        <li>
          <b>Secrets:</b> passwords, tokens and keys that are recognized by their name, notation or shape are
          replaced with <code>[removed]</code> before they leave the cluster. They are not counted.
        </li>
        <li>
          <b>Never sent:</b> arguments and results of tasks. Messages and tracebacks contain data if a program
          writes data into them.
        </li>
      </ul>
    </Section>
  );
}

function Away({ receipt }: { receipt: Receipt }) {
  const { name, setting } = CLASSES[receipt.class];
  const { withheld, dropped, accepted } = receipt;
  return (
    <li>
      <b>{name}:</b>{" "}
      {(withheld ?? 0) > 0 && (
        <>
          the scheduler withheld {counted(withheld ?? 0, "item")}, by its setting{" "}
          {setting && <code>{setting}</code>} or because the account refused the class.{" "}
        </>
      )}
      {(dropped ?? 0) > 0 && (
        <>
          {counted(dropped ?? 0, "item")} arrived while the account refused the class, and were not stored.{" "}
        </>
      )}
      The account {accepted ? "accepts" : "refuses"} it now.
    </li>
  );
}

const list = (items: readonly string[]) => new Intl.ListFormat("en").format(items);

const ROLES: Record<MemberRole, [one: string, many: string]> = {
  OWNER: ["owner", "owners"],
  ADMIN: ["admin", "admins"],
  MEMBER: ["member", "members"],
  VIEWER: ["viewer", "viewers"],
  GUEST: ["guest", "guests"],
};

/** The people who may see the cluster. */
function Readers({ account, reporter }: { account: Account; reporter: string | null }) {
  const { members } = account;
  const present = members?.nodes.filter(({ isOver }) => !isOver) ?? [];
  const roles = (Object.keys(ROLES) as MemberRole[]).flatMap((role) => {
    const names = present.filter((member) => member.role === role).map(({ user }) => user.name);
    return names.length > 0 ? [{ role, names }] : [];
  });
  return (
    <Section level={3} title={`All members of ${account.name} may see it, and nobody else`}>
      <ul className={styles.list}>
        <li>
          <b>Reported by:</b> {reporter ?? "a user who left the account"}
        </li>
        {roles.map(({ role, names }) => (
          <li key={role}>
            <b>{counted(names.length, ...ROLES[role])}:</b> {list(names)}
          </li>
        ))}
        {members && members.totalCount > members.nodes.length && (
          <li>{count(members.totalCount - members.nodes.length)} more are not listed here.</li>
        )}
        {!members && <li>Owners and admins see who the members are.</li>}
        <li>
          Texts that can contain code or data are stored encrypted. Reading code and profiles is recorded in
          the audit log of the account; reading messages, logs and notes is not.
        </li>
      </ul>
    </Section>
  );
}
