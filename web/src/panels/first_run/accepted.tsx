import type { DataClass, FirstRunQuery } from "@/data/gql/graphql.ts";
import { Icon } from "@/ui/icon.tsx";
import styles from "./first_run.module.css";

type Policy = FirstRunQuery["viewer"]["account"]["dataPolicies"][number];

const CLASS_NAMES: Record<DataClass, string> = {
  BASIC: "Workers, memory, usage",
  TASKS: "Names and times of tasks",
  DASK_ERRORS: "Failures of Dask",
  USER_ERRORS: "Exceptions of your code",
  CODE: "Code that called Dask",
  PROFILES: "Profiles",
  EVENTS: "Events",
  LOGS: "Logs",
};

/** The classes of data that the account accepts. */
export function Accepted({ policies }: { policies: readonly Policy[] }) {
  return (
    <aside className={styles.aside} aria-label="What this account accepts">
      <h2 className="h3">What this account accepts</h2>
      <ul className={styles.classes}>
        {policies.map((policy) => (
          <li key={policy.class} className={policy.accepted ? undefined : styles.refused}>
            <Icon name={policy.accepted ? "check" : "close"} />
            <span className="grow">{CLASS_NAMES[policy.class]}</span>
            <span className="faint">
              {policy.required ? "always" : policy.accepted ? "accepted" : "refused"}
            </span>
          </li>
        ))}
      </ul>
      <p className={styles.note}>
        The settings of a scheduler can withhold more. The server drops refused data on arrival and instructs
        schedulers not to send them.
      </p>
      <h2 className="h3">Have old reports?</h2>
      <p className={styles.note}>
        <code>galvo import dask-report.html</code> creates clusters from Dask's performance reports and
        cluster dumps.
      </p>
    </aside>
  );
}
