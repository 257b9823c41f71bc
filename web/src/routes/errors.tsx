import { useNavigate, useSearch } from "@tanstack/react-router";
import { useAccount } from "@/data/account.ts";
import { ErrorsPage } from "@/panels/errors/errors_page.tsx";
import { DEFAULT_RANGE, dayRange, daysOf } from "@/panels/range/range.ts";
import { RangeMenu } from "@/panels/range/range_menu.tsx";
import { Page } from "@/panels/shell/page.tsx";

/** The groups of similar errors. */
export function Errors() {
  const account = useAccount();
  const { range: given, ...rest } = useSearch({ from: "/$account/errors" });
  const navigate = useNavigate();
  const range = dayRange(given);
  const search = given === undefined ? rest : { ...rest, range: given };
  return (
    <Page
      title="Errors"
      tools={
        <RangeMenu
          range={range}
          onChange={(next) =>
            void navigate({
              to: "/$account/errors",
              params: { account },
              search: next === DEFAULT_RANGE ? rest : { ...rest, range: next },
            })
          }
        />
      }
    >
      <ErrorsPage days={daysOf(range, Date.now())} search={search} group={null} />
    </Page>
  );
}
