import { useSearch } from "@tanstack/react-router";
import { ClusterCostDocument, type ClusterCostQuery } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { threadTimeInWords } from "@/format/duration.ts";
import { threeDigits } from "@/format/number.ts";
import { day } from "@/format/time.ts";
import type { ClusterTabProps, ShownCluster } from "@/routes/cluster/tabs.ts";
import { useSetClusterSearch } from "@/routes/cluster/use_cluster_search.ts";
import { Empty, Loaded, Section, Withheld } from "@/ui/panel.tsx";
import { Segmented } from "@/ui/segmented.tsx";
import styles from "./cost.module.css";
import { type Cost, costKey, ratesOf, rateText } from "./costs.ts";
import { ByCause, ByFunction, ByHour } from "./divisions.tsx";

const ROUTE = "/$account/clusters/$number";
const REFETCH_SECONDS = 60;

type CostCluster = NonNullable<ClusterCostQuery["cluster"]>;

/** The cost of the cluster, by what its threads did, by function and by hour. */
export default function CostTab({ cluster }: ClusterTabProps) {
  const { unit } = useSearch({ from: ROUTE });
  const set = useSetClusterSearch();
  const query = useAsk(
    ClusterCostDocument,
    { id: cluster.id },
    cluster.isLive ? { refetchSeconds: REFETCH_SECONDS } : {},
  );
  return (
    <Loaded name="The cost" query={query}>
      {(data) => {
        if (!data.cluster) return null;
        const { usage } = data.cluster;
        const cost = usage.costs.find((one) => costKey(one) === unit) ?? usage.costs[0];
        if (!cost) return <NoCost seconds={usage.threadSeconds} />;
        const choice = usage.costs.length > 1 && (
          <Segmented
            label="Currency and basis"
            options={usage.costs.map((one) => ({ value: costKey(one), label: nameOf(one) }))}
            value={costKey(cost)}
            onChange={(next) => set({ unit: next })}
          />
        );
        return (
          <>
            <ByCause cluster={data.cluster} cost={cost} choice={choice}>
              <Facts usage={usage} />
              <Prices cluster={data.cluster} shown={cluster} cost={cost} />
            </ByCause>
            <ByFunction cluster={data.cluster} cost={cost} />
            <ByHour cluster={data.cluster} cost={cost} />
          </>
        );
      }}
    </Loaded>
  );
}

function nameOf({ currency, basis }: Cost): string {
  return basis === "ESTIMATED" ? `${currency}, estimated` : currency;
}

function NoCost({ seconds }: { seconds: number }) {
  return (
    <Section title="Cost">
      {seconds > 0 ? (
        <Withheld title="The cost is unknown">
          The cluster offered {threadTimeInWords(seconds)}, but no amount was computed for them.
        </Withheld>
      ) : (
        <Empty title="Nothing was used">No worker has offered any thread yet.</Empty>
      )}
    </Section>
  );
}

/** The quantities that the prices apply to. */
function Facts({ usage }: { usage: CostCluster["usage"] }) {
  return (
    <p className={styles.facts}>
      <span>
        <b>{threadTimeInWords(usage.threadSeconds)}</b>
      </span>
      <span>
        <b>{threeDigits(usage.memoryGibSeconds / 3600)}</b> GiB-hours of memory limits
      </span>
      <span>
        <b>{threeDigits(usage.workerSeconds / 3600)}</b> worker-hours
      </span>
      {!usage.isComplete && <span>incomplete: values were clamped</span>}
    </p>
  );
}

interface PricesProps {
  cluster: CostCluster;
  shown: ShownCluster;
  cost: Cost;
}

/** The prices behind the amount, and the way to set them. */
function Prices({ cluster, shown, cost }: PricesProps) {
  if (cost.basis === "ESTIMATED")
    return (
      <Withheld
        title={cluster.account.costRates.length > 0 ? "No price is set for these days" : "No price is set"}
      >
        The amount is the server's estimate of 0.05 USD per thread-hour. Owners and admins set a price with{" "}
        <code>galvo rate set 0.05 USD</code>
        {cluster.account.costRates.length > 0 && (
          <>
            , and for earlier days with <code>--from {shown.startedAt.slice(0, 10)}</code>
          </>
        )}
        , or with the mutation <code>setCostRate</code>.
      </Withheld>
    );
  const rates = ratesOf(cluster.account.costRates, shown.startedAt, shown.lastAt).filter(
    ({ currency }) => currency === cost.currency,
  );
  if (rates.length === 0) return null;
  return (
    <ul className={styles.note}>
      {rates.map((rate) => (
        <li key={rate.validFrom}>
          {rateText(rate)}, since {day(rate.validFrom)}
        </li>
      ))}
    </ul>
  );
}
