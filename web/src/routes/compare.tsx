import { useNavigate, useSearch } from "@tanstack/react-router";
import { useAccount } from "@/data/account.ts";
import { ComparePage } from "@/panels/compare/compare_page.tsx";
import { Page } from "@/panels/shell/page.tsx";

/** Two clusters beside one another. */
export function Compare() {
  const account = useAccount();
  const search = useSearch({ from: "/$account/compare" });
  const navigate = useNavigate();
  const { a, b } = search;
  return (
    <Page
      title={a && b ? `#${a} and #${b}` : "Compare"}
      crumbs={[{ label: "Clusters", to: "/$account/clusters" }]}
    >
      <ComparePage
        search={search}
        onSearch={(next) =>
          void navigate({ to: "/$account/compare", params: { account }, search: next, resetScroll: false })
        }
      />
    </Page>
  );
}
