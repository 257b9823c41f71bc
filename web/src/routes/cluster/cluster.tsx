import { Link, Outlet, useNavigate, useParams } from "@tanstack/react-router";
import { lazy, Suspense, useMemo, useState } from "react";
import { useAccount } from "@/data/account.ts";
import { ClusterHeaderDocument, ClusterTabCountsDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { tabCounts } from "@/panels/cluster/header/counts.ts";
import { Header } from "@/panels/cluster/header/header.tsx";
import { type HeaderCluster, shownCluster } from "@/panels/cluster/header/shown.ts";
import { Page } from "@/panels/shell/page.tsx";
import { useCommands } from "@/ui/commands.ts";
import { Loaded } from "@/ui/panel.tsx";
import { isLive } from "@/ui/state.tsx";
import tabStyles from "@/ui/tabs.module.css";
import { NotFound } from "../not_found.tsx";
import { NOT_PLAYED, PlayedContext } from "./part.ts";
import { ShownClusterContext } from "./shown_cluster.ts";
import { TABS } from "./tabs.ts";
import { useOpenMark } from "./use_open_mark.ts";

const Timeline = lazy(async () => ({
  default: (await import("@/panels/cluster/timeline/timeline.tsx")).Timeline,
}));

/** One cluster: its answers, its time line and its tabs. */
export function Cluster() {
  const { number } = useParams({ from: "/$account/clusters/$number" });
  const query = useAsk(ClusterHeaderDocument, { id: number });
  const cluster = query.data?.data.cluster ?? null;
  const title = cluster ? `${cluster.name ?? cluster.schedulerId} #${cluster.number}` : `#${number}`;
  const openMark = useOpenMark(number);
  const [played, set] = useState(NOT_PLAYED);
  const playback = useMemo(() => ({ ...played, set }), [played]);
  useTabKeys(number);
  if (query.data && !cluster) return <NotFound />;
  return (
    <Page title={title} crumbs={[{ label: "Clusters", to: "/$account/clusters" }]}>
      {query.isLoadingError && <h1 className="h1">Cluster #{number}</h1>}
      <Loaded name="The cluster" query={query}>
        {(data) =>
          data.cluster && (
            <ShownClusterContext value={shownCluster(data.cluster)}>
              <Header cluster={data.cluster} />
              <PlayedContext value={playback}>
                <Suspense fallback={<div className={tabStyles.reserved} aria-busy="true" />}>
                  <Timeline cluster={shownCluster(data.cluster)} onOpenMark={openMark} />
                </Suspense>
                <Tabs cluster={data.cluster} />
                <Outlet />
              </PlayedContext>
            </ShownClusterContext>
          )
        }
      </Loaded>
    </Page>
  );
}

/** The interval of counting again: a running cluster writes more log lines. */
const COUNT_SECONDS = 60;

function Tabs({ cluster }: { cluster: HeaderCluster }) {
  const account = useAccount();
  const { tab: current } = useParams({ strict: false });
  const number = String(cluster.number);
  const counted = useAsk(
    ClusterTabCountsDocument,
    { id: cluster.id },
    { refetchSeconds: isLive(cluster.state) ? COUNT_SECONDS : 0 },
  );
  const counts = tabCounts(cluster, counted.data?.data.cluster);
  return (
    <nav className={tabStyles.tabs} aria-label="Parts of the cluster">
      {TABS.map(({ name, label }, index) => (
        <Link
          key={name}
          to="/$account/clusters/$number/$tab"
          params={{ account, number, tab: name }}
          search={(search) => ({ ...search, open: undefined, q: undefined })}
          className={tabStyles.tab}
          resetScroll={false}
          aria-current={name === current || (current === undefined && index === 0) ? "page" : undefined}
        >
          {label} {counts[name] && <span className={tabStyles.count}>{counts[name]}</span>}
        </Link>
      ))}
    </nav>
  );
}

function useTabKeys(number: string): void {
  const account = useAccount();
  const navigate = useNavigate();
  useCommands(
    TABS.slice(0, 9).map(({ name, label }, index) => ({
      id: `tab-${name}`,
      label: `Tab ${label}`,
      keys: String(index + 1),
      group: "Page" as const,
      run: () =>
        void navigate({
          to: "/$account/clusters/$number/$tab",
          params: { account, number, tab: name },
          // As by the tab's link: an opened row belongs to the tab that is left.
          search: (search) => ({ ...search, open: undefined, q: undefined }),
          resetScroll: false,
        }),
    })),
  );
}
