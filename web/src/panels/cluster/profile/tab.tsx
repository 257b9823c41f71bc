import { ClusterProfileDocument, type ClusterProfileQuery } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { counted } from "@/format/number.ts";
import { usePart } from "@/routes/cluster/part.ts";
import type { ClusterTabProps } from "@/routes/cluster/tabs.ts";
import { Empty, Loaded, Section, Skeleton, Withheld } from "@/ui/panel.tsx";
import { receiptOf } from "../receipts/receipts.ts";
import { type NoProfileReason, noProfileReason } from "./no_profile_reason.ts";
import { ShownProfile } from "./shown_profile.tsx";

/** The least share of the samples that a line is drawn with. */
const MIN_SHARE = 0.001;
/** The usual length of a window. A closed cluster has no new ones, and each answer is in the audit log. */
const WINDOW_SECONDS = 60;

/** The lines of code that the threads of the workers were in. */
export default function ProfileTab({ cluster }: ClusterTabProps) {
  const { from, to } = usePart(cluster.startedAt, true);
  const variables = { id: cluster.id, from: from ?? null, to: to ?? null, minShare: MIN_SHARE };
  const query = useAsk(ClusterProfileDocument, variables, {
    keepsPrevious: true,
    staleSeconds: cluster.isLive ? WINDOW_SECONDS : Number.POSITIVE_INFINITY,
    ...(cluster.isLive && to === undefined ? { refetchSeconds: WINDOW_SECONDS } : {}),
  });
  return (
    <Loaded name="The profile" query={query} skeleton={<Skeleton rows={8} columns={5} />}>
      {(data, errors) => {
        if (!data.cluster) return null;
        if (data.cluster.profile)
          return (
            <ShownProfile
              profile={data.cluster.profile}
              variables={variables}
              minShare={MIN_SHARE}
              isPart={from !== undefined}
            />
          );
        const isUnreadable = errors.some(({ path }) => path.includes("profile"));
        return (
          <Section title="Profile">
            {isUnreadable ? (
              <Withheld title="The profile cannot be read">
                The server lacks the key of its stored windows, or they are damaged.
              </Withheld>
            ) : (
              <Reason cluster={data.cluster} isPart={from !== undefined} />
            )}
          </Section>
        );
      }}
    </Loaded>
  );
}

interface ReasonProps {
  cluster: NonNullable<ClusterProfileQuery["cluster"]>;
  isPart: boolean;
}

const SETTING = <code>galvo.profile.transmit</code>;

/** The reason why nothing was sampled, and the way to change it. */
function Reason({ cluster, isPart }: ReasonProps) {
  const receipt = receiptOf(cluster, "PROFILES");
  const days = cluster.account.dataPolicies.find((one) => one.class === "PROFILES")?.retentionDays ?? null;
  const reason: NoProfileReason = noProfileReason(receipt, isPart);
  switch (reason) {
    case "unreported":
      return (
        <Withheld title="No profile was reported">
          The scheduler does not report what it sends. It sends profiles if {SETTING} is turned on where it is
          started.
        </Withheld>
      );
    case "refused":
      return (
        <Withheld title="The account refuses profiles">
          Owners and admins can accept them with the mutation <code>setDataPolicy</code>. The clusters send
          them if {SETTING} is turned on where they are started.
        </Withheld>
      );
    case "dropped":
      return (
        <Withheld title="The account refused profiles while this cluster ran">
          {counted(receipt?.dropped ?? 0, "window")} arrived and were not stored. The account accepts profiles
          now.
        </Withheld>
      );
    case "withheld":
      return (
        <Withheld title={`The cluster withheld ${counted(receipt?.withheld ?? 0, "window")}`}>
          {SETTING} was off, or the account refused profiles at that time. The account accepts them now.
        </Withheld>
      );
    case "other-part":
      return (
        <Empty title="No window of the profile begins in the chosen part">
          A window usually covers a minute, and belongs to the part in which it begins. Choose a longer part,
          or clear it.
        </Empty>
      );
    case "deleted":
      return (
        <Empty title="The profile was deleted">
          {counted(receipt?.sent ?? 0, "window")} were sent. The account keeps profiles for{" "}
          {days === null ? "the server's default number of days" : counted(days, "day")}.
        </Empty>
      );
    case "off":
      return (
        <Withheld title="No profile was sent by this cluster">
          Turn on {SETTING} where it is started. The account accepts profiles. If it is on, no task ran for
          the length of a window, usually a minute.
        </Withheld>
      );
  }
}
