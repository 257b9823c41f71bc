import { useNavigate } from "@tanstack/react-router";
import { useAccount } from "@/data/account.ts";
import { ErrorGroupCountsDocument, ErrorGroupsDocument, type ErrorGroupsQuery } from "@/data/gql/graphql.ts";
import { type Asked, useAsk, useAskPages } from "@/data/queries.ts";
import { count, counted } from "@/format/number.ts";
import { type Days, fixedRange } from "@/panels/range/range.ts";
import { CopyLink } from "@/panels/take_away/copy_link.tsx";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import type { ErrorsSearch } from "@/routes/search_types.ts";
import { Button } from "@/ui/button.tsx";
import { FilterChip } from "@/ui/chip.tsx";
import { useCommands } from "@/ui/commands.ts";
import { useMedia } from "@/ui/media.ts";
import { Empty, Loaded, Skeleton } from "@/ui/panel.tsx";
import { Segmented } from "@/ui/segmented.tsx";
import styles from "./errors.module.css";
import { groupFilter, newFirst, STATUS_TABS, statusesOf, statusTab, trendOf } from "./filter.ts";
import { GroupDetail } from "./group_detail.tsx";
import { GroupList, groupSheet } from "./group_list.tsx";

interface ErrorsPageProps {
  days: Days;
  search: ErrorsSearch;
  /** The group of the address. Null shows the first one beside the list, if there is room. */
  group: string | null;
}

const TAB_NAMES = { open: "Open", resolved: "Resolved", ignored: "Ignored" } as const;
const ORIGINS = ["ALL", "USER", "DASK"] as const;
type OriginChoice = (typeof ORIGINS)[number];
const ORIGIN_LABELS: Record<OriginChoice, string> = { ALL: "All origins", USER: "Own code", DASK: "Dask" };

/** The groups of similar errors, and one of them beside the list. */
export function ErrorsPage({ days, search, group }: ErrorsPageProps) {
  const account = useAccount();
  const navigate = useNavigate();
  const isNarrow = useMedia("(max-width: 1100px)");
  const now = Date.now();
  const filter = groupFilter(search, days);
  const tab = statusTab(search);
  const trend = trendOf(days);
  const counts = useAsk(
    ErrorGroupCountsDocument,
    { ...filter, from: days.from, to: days.to },
    { keepsPrevious: true, refetchSeconds: 60 },
  );
  const variables = { ...filter, ...trend, status: statusesOf(tab) };
  const query = useAskPages(ErrorGroupsDocument, variables, (data: ErrorGroupsQuery) => {
    const info = data.viewer.account.errorGroups?.pageInfo;
    return info?.hasNextPage ? info.endCursor : null;
  });
  const pages = query.data?.pages ?? [];
  const groups = newFirst(
    pages.flatMap(({ data }) => data.viewer.account.errorGroups?.nodes ?? []),
    now,
  );
  const chosen = group ?? (isNarrow ? null : (groups[0]?.id ?? null));
  const onSearch = (next: ErrorsSearch) =>
    void navigate({ to: "/$account/errors", params: { account }, search: next });
  const open = (id: string) =>
    void navigate({
      to: "/$account/errors/$group",
      params: { account, group: id },
      search,
      resetScroll: false,
    });
  const step = (by: number) => {
    const at = groups.findIndex(({ id }) => id === chosen);
    const next = groups[Math.min(groups.length - 1, Math.max(0, at + by))];
    if (next) open(next.id);
  };
  useCommands([
    {
      id: "errors-next",
      label: "Next error",
      keys: "j",
      group: "Table",
      isKeyOnly: true,
      run: () => step(1),
    },
    {
      id: "errors-previous",
      label: "Previous error",
      keys: "k",
      group: "Table",
      isKeyOnly: true,
      run: () => step(-1),
    },
  ]);
  const known = counts.data?.data.viewer.account;
  const first = { ...query, data: pages[0] } as unknown as Asked<ErrorGroupsQuery>;
  return (
    <>
      <div className={styles.title}>
        <h1 className="h1">Errors</h1>
        {known && (
          <span className="faint">
            {counted(known.statistics.usage.errors, "error")} in {days.words}, among{" "}
            {counted(known.statistics.clusters, "cluster")}
          </span>
        )}
        <div className={styles.tools}>
          {chosen === null && <CopyLink fixed={{ range: fixedRange(days) }} />}
          <Segmented
            label="Origin"
            value={ORIGINS.find((origin) => origin === search.origin) ?? "ALL"}
            onChange={(origin) => onSearch(withOrigin(search, origin))}
            options={ORIGINS.map((value) => ({ value, label: ORIGIN_LABELS[value] }))}
          />
          <Segmented
            label="Status"
            value={tab}
            onChange={(status) => onSearch(withStatus(search, status))}
            options={STATUS_TABS.map((value) => ({
              value,
              label: TAB_NAMES[value],
              count: known?.[value]?.totalCount ?? null,
            }))}
          />
          <TakeAway
            name="errors"
            document={ErrorGroupsDocument}
            variables={variables}
            sheet={groupSheet(groups)}
          />
        </div>
      </div>
      {search.type && (
        <div className={styles.filters}>
          {search.type.map((type) => (
            <FilterChip
              key={type}
              name="Class"
              value={type}
              onRemove={() => onSearch(withoutType(search, type))}
            />
          ))}
        </div>
      )}
      <Loaded name="The errors" query={first} skeleton={<Skeleton rows={6} columns={3} />}>
        {({ viewer }) => {
          const total = viewer.account.errorGroups?.totalCount ?? groups.length;
          return (
            <div className={styles.columns}>
              {!(isNarrow && group !== null) && (
                <div>
                  {groups.length === 0 ? (
                    <Empty
                      title={
                        search.type || search.origin
                          ? `No ${tab} error passes the filter`
                          : `No ${tab} error was seen in ${days.words}`
                      }
                    >
                      {known ? otherTabs(tab, known) : ""}
                    </Empty>
                  ) : (
                    <GroupList {...{ groups, chosen, search, now }} isWeekly={trend.bucket === "WEEK"} />
                  )}
                  {groups.length < total && (
                    <p className="muted small">
                      {count(groups.length)} of {count(total)}{" "}
                      <Button
                        size="small"
                        disabled={query.isFetchingNextPage}
                        onClick={() => void query.fetchNextPage()}
                      >
                        {query.isFetchingNextPage ? "Loading…" : "Show 50 more"}
                      </Button>
                    </p>
                  )}
                </div>
              )}
              {chosen !== null && (
                <div className={styles.detail}>
                  <GroupDetail key={chosen} id={chosen} days={days} now={now} />
                </div>
              )}
            </div>
          );
        }}
      </Loaded>
    </>
  );
}

type Counts = Record<"open" | "resolved" | "ignored", { totalCount: number } | null>;

/** Returns the groups under the other statuses, for a list that is empty. */
function otherTabs(tab: (typeof STATUS_TABS)[number], counts: Counts): string {
  return STATUS_TABS.filter((other) => other !== tab)
    .map((other) => `${count(counts[other]?.totalCount ?? 0)} ${other}`)
    .join(", ");
}

function withOrigin({ origin: _, ...rest }: ErrorsSearch, origin: OriginChoice): ErrorsSearch {
  return origin === "ALL" ? rest : { ...rest, origin };
}

function withStatus({ status: _, ...rest }: ErrorsSearch, status: string): ErrorsSearch {
  return status === "open" ? rest : { ...rest, status };
}

function withoutType({ type, ...rest }: ErrorsSearch, removed: string): ErrorsSearch {
  const left = type?.filter((other) => other !== removed) ?? [];
  return left.length === 0 ? rest : { ...rest, type: left };
}
