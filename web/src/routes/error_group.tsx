import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useAccount } from "@/data/account.ts";
import { ErrorGroupDetailDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { ErrorsPage } from "@/panels/errors/errors_page.tsx";
import { trendOf } from "@/panels/errors/filter.ts";
import { DEFAULT_RANGE, dayRange, daysOf } from "@/panels/range/range.ts";
import { RangeMenu } from "@/panels/range/range_menu.tsx";
import { Page } from "@/panels/shell/page.tsx";

/** One group of similar errors, beside the others. */
export function ErrorGroup() {
  const account = useAccount();
  const { group } = useParams({ from: "/$account/errors/$group" });
  const { range: given, ...rest } = useSearch({ from: "/$account/errors/$group" });
  const navigate = useNavigate();
  const range = dayRange(given);
  const search = given === undefined ? rest : { ...rest, range: given };
  const days = daysOf(range, Date.now());
  // The panel's own query.
  const node = useAsk(ErrorGroupDetailDocument, { id: group, ...trendOf(days) }).data?.data.node;
  const title = (node && "type" in node && node.type) || "Error";
  return (
    <Page
      title={title}
      crumbs={[{ label: "Errors", to: "/$account/errors" }]}
      tools={
        <RangeMenu
          range={range}
          onChange={(next) =>
            void navigate({
              to: "/$account/errors/$group",
              params: { account, group },
              search: next === DEFAULT_RANGE ? rest : { ...rest, range: next },
            })
          }
        />
      }
    >
      <ErrorsPage days={days} search={search} group={group} />
    </Page>
  );
}
