import { useNavigate, useSearch } from "@tanstack/react-router";
import { useAccount } from "@/data/account.ts";
import { OverviewPage } from "@/panels/overview/overview_page.tsx";
import { type DayRange, DEFAULT_RANGE, dayRange, daysOf } from "@/panels/range/range.ts";
import { RangeMenu } from "@/panels/range/range_menu.tsx";
import { Page } from "@/panels/shell/page.tsx";
import type { OverviewSearch } from "./search_types.ts";

/** The account in figures. */
export function Overview() {
  const account = useAccount();
  const search = useSearch({ from: "/$account/" });
  const navigate = useNavigate();
  const range = dayRange(search.range);
  const onSearch = (next: OverviewSearch) =>
    void navigate({ to: "/$account", params: { account }, search: next, resetScroll: false });
  const onRange = (next: DayRange) => {
    const { range: _, ...rest } = search;
    onSearch(next === DEFAULT_RANGE ? rest : { ...rest, range: next });
  };
  return (
    <Page title="Overview" tools={<RangeMenu range={range} onChange={onRange} />}>
      <OverviewPage days={daysOf(range, Date.now())} search={search} onSearch={onSearch} />
    </Page>
  );
}
