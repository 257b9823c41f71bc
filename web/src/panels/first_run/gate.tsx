import { useLocation } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense } from "react";
import { useAccount } from "@/data/account.ts";
import { FirstRunDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";

const FirstRun = lazy(() => import("./first_run.tsx"));

/** Shows the first run in place of the overview and of the list, while the account has no cluster at all. */
export function FirstRunGate({ children }: { children: ReactNode }) {
  const account = useAccount();
  const { pathname, searchStr } = useLocation();
  const isEntry =
    [`/${account}`, `/${account}/clusters`].includes(pathname.replace(/\/$/, "")) && searchStr === "";
  const query = useAsk(FirstRunDocument, {}, { enabled: isEntry, staleSeconds: 300 });
  const known = query.data?.data.viewer.account;
  if (!isEntry || !known || known.clusters.nodes.length > 0) return children;
  return (
    <Suspense>
      <FirstRun account={known} />
    </Suspense>
  );
}
