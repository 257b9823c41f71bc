import { OverviewNowDocument, OverviewToBeWonDocument, OverviewUsageDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { day } from "@/format/time.ts";
import { type Days, fixedRange, isoDay, plusDays } from "@/panels/range/range.ts";
import { CopyLink } from "@/panels/take_away/copy_link.tsx";
import type { OverviewSearch } from "@/routes/search_types.ts";
import { IDLE_HOUR_SECONDS } from "./arithmetic.ts";
import { Figures } from "./figures.tsx";
import { LivePanel } from "./live.tsx";
import styles from "./overview.module.css";
import { ToBeWon } from "./to_be_won.tsx";
import { UsagePanel } from "./usage.tsx";
import { UserDaysPanel } from "./user_days.tsx";

interface OverviewPageProps {
  days: Days;
  search: OverviewSearch;
  onSearch(search: OverviewSearch): void;
}

const midnight = (date: string) => `${date}T00:00:00Z`;

/** The account in figures: now, over the days, by user and day, and what could be saved. */
export function OverviewPage({ days, search, onSearch }: OverviewPageProps) {
  const started = { from: days.from === null ? null : midnight(days.from), to: midnight(days.to) };
  const now = useAsk(OverviewNowDocument, { seen: started }, { refetchSeconds: 15, keepsPrevious: true });
  const usage = useAsk(
    OverviewUsageDocument,
    { from: days.from, to: days.to },
    { refetchSeconds: 60, keepsPrevious: true },
  );
  const before = useAsk(
    OverviewUsageDocument,
    { from: days.before, to: days.from },
    { enabled: days.before !== null, staleSeconds: 3600 },
  );
  const account = usage.data?.data.viewer.account;
  const from = days.from ?? (account ? isoDay(Date.parse(account.createdAt)) : null);
  const won = useAsk(
    OverviewToBeWonDocument,
    {
      timeout: IDLE_HOUR_SECONDS,
      // Without a start, the server would take the last 30 days.
      startedIn: { from: from === null ? null : midnight(from), to: started.to },
    },
    { enabled: from !== null, staleSeconds: 300 },
  );
  return (
    <>
      <div className={styles.title}>
        <h1 className="h1">Overview</h1>
        {from !== null && (
          <span className="faint">
            {day(from)} – {day(plusDays(days.to, -1))}, UTC
          </span>
        )}
        <span className="grow" />
        <CopyLink fixed={{ range: fixedRange(days) }} />
      </div>
      <Figures {...{ days, now, usage, before, won }} />
      <UsagePanel {...{ days, usage, before, search, onSearch }} />
      {from !== null && <UserDaysPanel from={from} to={days.to} {...{ search, onSearch }} />}
      <div className={styles.columns}>
        <LivePanel query={now} variables={{ seen: started }} />
        <ToBeWon words={days.words} query={won} />
      </div>
    </>
  );
}
