import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { HeatMap } from "@/charts/heat/heat_map.tsx";
import { heatCuts } from "@/charts/heat/steps.ts";
import { useAccount } from "@/data/account.ts";
import { OverviewUserDaysDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { secondsOf, threadTime, threadTimes, threadUnit } from "@/format/duration.ts";
import { costText, money } from "@/format/money.ts";
import { count, counted, share } from "@/format/number.ts";
import { day as dayText } from "@/format/time.ts";
import { daysBetween, plusDays } from "@/panels/range/range.ts";
import { SheetTable } from "@/panels/take_away/sheet_table.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import type { OverviewSearch } from "@/routes/search_types.ts";
import { Button } from "@/ui/button.tsx";
import { useCommands } from "@/ui/commands.ts";
import { useIsNarrow } from "@/ui/media.ts";
import { Empty, Loaded, Section, Skeleton } from "@/ui/panel.tsx";
import { Segmented } from "@/ui/segmented.tsx";
import styles from "./overview.module.css";
import {
  FORMER,
  joinNames,
  MEASURES,
  type Measure,
  mainUsers,
  OTHERS,
  onlyCurrency,
  type UsageRow,
  userDays,
} from "./user_days.ts";

const MEASURE_NAMES: Record<Measure, string> = {
  compute: "Compute time",
  cluster: "Cluster time",
  cost: "Cost",
  errors: "Errors",
};
const MOST_DAYS = 90;
const NARROW_DAYS = 14;

interface UserDaysProps {
  from: string;
  to: string;
  search: OverviewSearch;
  onSearch(search: OverviewSearch): void;
}

/** The use of the account by user and day, with its sums. */
export function UserDaysPanel({ from, to, search, onSearch }: UserDaysProps) {
  const isNarrow = useIsNarrow();
  const earliest = plusDays(to, -(isNarrow ? NARROW_DAYS : MOST_DAYS));
  const first = from > earliest ? from : earliest;
  const query = useAsk(OverviewUserDaysDocument, { from: first, to }, { keepsPrevious: true });
  return (
    <Loaded name="The use by user and day" query={query} skeleton={<Skeleton rows={6} columns={8} />}>
      {({ viewer }) => (
        <Shown
          rows={viewer.account.usageTable ?? []}
          {...{ from: first, to, search, onSearch }}
          isCut={first > from}
        />
      )}
    </Loaded>
  );
}

interface ShownProps extends UserDaysProps {
  rows: readonly UsageRow[];
  isCut: boolean;
}

function Shown({ rows, from, to, search, onSearch, isCut }: ShownProps) {
  const [isTable, setTable] = useState(false);
  const currency = onlyCurrency(rows);
  const wanted = MEASURES.find((known) => known === search.by) ?? "compute";
  const measure = wanted === "cost" && currency === null ? "compute" : wanted;
  const days = useMemo(() => daysBetween(from, to), [from, to]);
  const table = useMemo(() => userDays(rows, days, measure), [rows, days, measure]);
  const cells = table.users.flatMap(({ byDay }) => [...byDay.values()]);
  const unit = threadUnit(table.total);
  const times = threadTimes(table.total);
  const format = (value: number): string => {
    if (measure === "cost") return money(value, currency ?? "USD");
    return measure === "errors" ? count(value) : times(value);
  };
  const main = mainUsers(table);
  const noun = { compute: "computed", cluster: "offered", cost: "spent", errors: "had" }[measure];
  const title = main
    ? `${joinNames(main.names)} ${noun} ${share(main.share)} of ${measure === "errors" ? "the errors" : "it"}`
    : measure === "errors"
      ? "Nobody had an error"
      : "Nobody used a cluster";
  const byUser = new Map(table.users.map((user) => [user.id, user]));
  const value = (user: string, day: string) => byUser.get(user)?.byDay.get(day) ?? 0;
  const sheet = {
    head: ["user", ...days, "total"],
    rows: [
      ...table.users.map(({ name, byDay, total }) => [
        name,
        ...days.map((day) => byDay.get(day) ?? 0),
        total,
      ]),
      ["Total", ...days.map((day) => table.byDay.get(day) ?? 0), table.total],
    ],
  };
  // The limits are round in the unit in which they are shown.
  const scale = measure === "cost" || measure === "errors" ? 1 : secondsOf(unit);
  const cuts = heatCuts(cells.map((cell) => cell / scale)).map((cut) => cut * scale);
  const top = cuts.at(-1);
  const chosen = search.user !== undefined && search.from !== undefined;
  return (
    <Section
      title={title}
      sub={isCut ? `the last ${days.length} days only` : `${days.length} days, UTC`}
      actions={
        <span className={styles.tools}>
          {top !== undefined && !isTable && (
            <Key steps={cuts.length} top={format(top)} isBad={measure === "errors"} />
          )}
          <Segmented
            label="Measure"
            value={measure}
            onChange={(by) => onSearch({ ...search, by })}
            options={MEASURES.map((name) => ({
              value: name,
              label: MEASURE_NAMES[name],
              disabled: name === "cost" && currency === null,
            }))}
          />
          <TakeAway
            name={`${measure}-by-user-and-day`}
            document={OverviewUserDaysDocument}
            variables={{ from, to }}
            sheet={sheet}
            isTable={isTable}
            onTable={setTable}
          />
        </span>
      }
    >
      {table.users.length === 0 && <Empty title={`No use from ${dayText(from)} on`} />}
      {table.users.length > 0 && isTable && <SheetTable label={title} sheet={sheet} format={format} />}
      {table.users.length > 0 && !isTable && (
        <HeatMap
          label={`${MEASURE_NAMES[measure]} by user and day: ${title}`}
          rows={table.users.map(({ id, name }) => ({ id, label: name }))}
          columns={days.map((day) => ({
            id: day,
            label: dayText(day),
            isLabelled: new Date(day).getUTCDay() === 1,
          }))}
          value={value}
          cuts={cuts}
          tone={measure === "errors" ? "heat-bad" : "heat"}
          describe={(user, day) => `${byUser.get(user)?.name}, ${dayText(day)}, ${format(value(user, day))}`}
          tip={(user, day) => (
            <CellFacts name={byUser.get(user)?.name ?? ""} day={day} rows={rowsOf(rows, user, day)} />
          )}
          isChosen={(user, day) => search.user === byUser.get(user)?.name && search.from === day}
          onChoose={(user, day) => {
            const name = byUser.get(user)?.name;
            if (name !== undefined) onSearch({ ...search, user: name, from: day });
          }}
          margins={{
            label: "All",
            total: table.total,
            column: (day) => table.byDay.get(day) ?? 0,
            row: (user) => byUser.get(user)?.total ?? 0,
            format,
          }}
        />
      )}
      {table.users.length < table.userCount && (
        <p className="muted small">
          {table.users.length - 1} of {table.userCount} users; the others are summed in the last row.
        </p>
      )}
      {chosen && <Chosen {...{ rows, search, onSearch }} users={table.users} />}
    </Section>
  );
}

function rowsOf(rows: readonly UsageRow[], user: string, day: string): UsageRow[] {
  if (user === OTHERS) return [];
  return rows.filter((row) => row.day === day && (row.user?.id ?? FORMER) === user);
}

function Key({ steps, top, isBad }: { steps: number; top: string; isBad: boolean }) {
  const tone = isBad ? "heat-bad" : "heat";
  return (
    <span className={styles.key} aria-hidden="true">
      0
      <i style={{ background: "var(--heat-0)" }} />
      {Array.from({ length: steps }, (_, index) => index + 1).map((step) => (
        <i key={step} style={{ background: `var(--${tone}-${step})` }} />
      ))}
      {top} +
    </span>
  );
}

/** All measures of one cell. */
function CellFacts({ name, day, rows }: { name: string; day: string; rows: readonly UsageRow[] }) {
  const [row] = rows;
  const usage = row?.usage;
  return (
    <dl className={styles.facts}>
      <dt>
        <strong>
          {name}, {dayText(day)}
        </strong>
      </dt>
      <dd />
      {usage ? (
        <>
          <dt>Compute time</dt>
          <dd>{threadTime(usage.computeSeconds)}</dd>
          <dt>Cluster time</dt>
          <dd>{threadTime(usage.threadSeconds)}</dd>
          <dt>Utilisation</dt>
          <dd>{usage.utilization === null ? "unknown" : share(usage.utilization)}</dd>
          <dt>Cost</dt>
          <dd>{spent(usage.costs)}</dd>
          <dt>Clusters</dt>
          <dd>{row?.clusters === null || row === undefined ? "unknown" : count(row.clusters)}</dd>
        </>
      ) : (
        <>
          <dt>No use</dt>
          <dd />
        </>
      )}
    </dl>
  );
}

function spent(costs: NonNullable<UsageRow["usage"]>["costs"]): string {
  const text = costText(costs);
  return text ? `${text.text}${text.isEstimated ? " est." : ""}` : "none";
}

interface ChosenProps {
  rows: readonly UsageRow[];
  users: readonly { id: string; name: string }[];
  search: OverviewSearch;
  onSearch(search: OverviewSearch): void;
}

/** The chosen cell in words, and the way to its clusters. */
function Chosen({ rows, users, search, onSearch }: ChosenProps) {
  const account = useAccount();
  const user = users.find(({ name }) => name === search.user);
  const [row] = user && search.from ? rowsOf(rows, user.id, search.from) : [];
  const { user: _, from: __, ...rest } = search;
  const usage = row?.usage;
  const clear = () => onSearch(rest);
  useCommands([
    { id: "clear-cell", label: "Clear the chosen day", keys: "Escape", group: "Chart", run: clear },
  ]);
  return (
    <p className={styles.chosen} role="status">
      <span>
        <strong>
          {search.user}, {dayText(search.from ?? "")}
        </strong>
        {usage
          ? `: ${threadTime(usage.computeSeconds)} computed of ${threadTime(usage.threadSeconds)}, ${spent(usage.costs)}, ${counted(usage.errors, "error")}`
          : ": no use"}
      </span>
      {user && user.id !== FORMER && user.id !== OTHERS && (
        <Link className="link" to="/$account/clusters" params={{ account }} search={{ user: user.name }}>
          Clusters of {user.name}
        </Link>
      )}
      <Button size="small" onClick={clear}>
        Clear
      </Button>
    </p>
  );
}
