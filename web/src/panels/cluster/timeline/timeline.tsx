import { useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useContext, useMemo, useRef } from "react";
import { Lanes } from "@/charts/lanes/lanes.tsx";
import type { Lane, Mark, Reference, TimeRange } from "@/charts/lanes/types.ts";
import {
  ClusterFunctionActivityDocument,
  ClusterLanesDocument,
  ClusterMarksDocument,
  type MarkedSpanFragment,
} from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { clockSeconds, period } from "@/format/time.ts";
import { useBaseline } from "@/panels/cluster/header/baseline.ts";
import { TakeAway } from "@/panels/take_away/take_away.tsx";
import { NOT_PLAYED, PlayedContext } from "@/routes/cluster/part.ts";
import type { ShownCluster } from "@/routes/cluster/tabs.ts";
import { useSetClusterSearch } from "@/routes/cluster/use_cluster_search.ts";
import { Button } from "@/ui/button.tsx";
import { type Command, useCommands } from "@/ui/commands.ts";
import { Menu, MenuItem } from "@/ui/menu.tsx";
import { Loaded, QueryState, Skeleton } from "@/ui/panel.tsx";
import { groupsLane, spansLane } from "./bar_rows.ts";
import { FUNCTIONS_LANE, functionSheet } from "./function_lane.ts";
import { ALL_LANES, defaultLanes, LANE_KINDS, plotLanes } from "./lane_kinds.ts";
import { lanesSheet } from "./lanes_sheet.ts";
import { deathMarks, marksNote, marksOf } from "./marks.ts";
import { withMoreSpans } from "./more_spans.ts";
import styles from "./timeline.module.css";
import { useEndedWorkers } from "./use_ended_workers.ts";
import { useFunctionActivity } from "./use_function_activity.ts";
import { useMoreSpans } from "./use_more_spans.ts";
import { bucketWidth, iso } from "./window.ts";

const LanesTable = lazy(async () => ({
  default: (await import("@/charts/lanes/lanes_table.tsx")).LanesTable,
}));

const ROUTE = "/$account/clusters/$number";

interface TimelineProps {
  cluster: ShownCluster;
  onOpenMark(mark: Mark): void;
}

const NO_SPANS: readonly MarkedSpanFragment[] = [];

/** The search part of the whole run. */
const NO_PART = { from: undefined, to: undefined, zoom: undefined };

/** The cluster over time: what failed, what ran and what it used, on one axis. */
export function Timeline({ cluster, onOpenMark }: TimelineProps) {
  const search = useSearch({ from: ROUTE });
  const setSearch = useSetClusterSearch();
  const { isPlaying, to: playedTo, set: setPlayed } = useContext(PlayedContext);
  const playedAt = useRef({ at: 0, shownAt: 0 });
  const { startedAt, lastAt } = cluster;
  const extent = useMemo(() => extentOf(startedAt, lastAt), [startedAt, lastAt]);
  const { from, to } = search;
  // Both are in the address, so that a reload and a link show the same.
  const isZoomed = search.zoom === "yes";
  const isTable = search.timeline === "table";
  const setZoomed = (next: boolean) => setSearch({ zoom: next ? "yes" : undefined });
  const setTable = (next: boolean) => setSearch({ timeline: next ? "table" : undefined });
  const selection = useMemo(() => selectionOf(from, to), [from, to]);
  const shown = isZoomed && selection ? selection : extent;

  const activity = useFunctionActivity(cluster, { extent, shown }, choiceOfFunctions(search.lanes));
  const chosen = useMemo(
    () => search.lanes?.split(",") ?? defaultLanes(!activity.isMissing),
    [search.lanes, activity.isMissing],
  );
  const kinds = LANE_KINDS.filter(({ id }) => chosen.includes(id));
  const hasPlots = kinds.length > 0;
  const variables = {
    id: cluster.id,
    from: iso(shown.from),
    // The end of a live cluster moves; without an end, the answer reaches to the last report.
    to: cluster.isLive && shown === extent ? null : iso(shown.to),
    width: bucketWidth(shown.to - shown.from),
    metrics: [...new Set(kinds.flatMap(({ metrics }) => metrics))],
  };
  const lanes = useAsk(ClusterLanesDocument, variables, { keepsPrevious: true, enabled: hasPlots });
  const marks = useAsk(ClusterMarksDocument, { id: cluster.id });
  const moreSpans = useMoreSpans(cluster.id, marks.data?.data.cluster ?? null);
  const { query: endedQuery, ended } = useEndedWorkers(cluster.id);

  const baseline = useBaseline(cluster.id);
  const reference = baseline && referenceAt(extent.from + baseline.durationSeconds, baseline.number);
  const marked = marks.data?.data.cluster ?? null;
  const shownMarks = useMemo(
    () => [...deathMarks(ended), ...(marked ? marksOf(marked) : [])],
    [marked, ended],
  );
  const furtherSpans = moreSpans.data?.data ?? NO_SPANS;
  const byFunction = activity.lane;
  const drawn = useMemo(() => {
    const bars: Lane[] = [];
    if (marked && chosen.includes("spans") && marked.spans.totalCount > 0)
      bars.push(spansLane(withMoreSpans(marked, furtherSpans), extent.to));
    if (marked && chosen.includes("groups")) bars.push(groupsLane(marked));
    const plots = plotLanes(
      LANE_KINDS.filter(({ id }) => chosen.includes(id)),
      lanes.data?.data.cluster?.series ?? [],
    );
    return [...bars, ...(byFunction ? [byFunction] : []), ...plots];
  }, [lanes.data, marked, furtherSpans, extent, chosen, byFunction]);

  const sheet = useMemo(() => lanesSheet(drawn, shown), [drawn, shown]);

  const onPlay = (at: number) => {
    playedAt.current.at = at;
    if (Date.now() - playedAt.current.shownAt < PLAYED_STEP_MS) return;
    playedAt.current.shownAt = Date.now();
    setPlayed({ to: iso(at), isPlaying: true });
  };
  const pause = (at: number) => setPlayed(at >= shown.to ? NOT_PLAYED : { to: iso(at), isPlaying: false });
  const togglePlayback = () =>
    isPlaying ? pause(playedAt.current.at) : setPlayed({ to: playedTo, isPlaying: true });
  const select = (range: TimeRange | null) => {
    setPlayed(NOT_PLAYED);
    setSearch(range ? { from: iso(range.from), to: iso(range.to) } : NO_PART);
  };
  const zoom = (range: TimeRange | null) =>
    setSearch(range ? { from: iso(range.from), to: iso(range.to), zoom: "yes" } : NO_PART);
  // Ends a playback first, and clears the chosen part only without one.
  const clear = () => (playedTo === null ? select(null) : setPlayed(NOT_PLAYED));
  const setLanes = (ids: string[]) => setSearch({ lanes: ids.join(",") || undefined });
  // On the tab of the logs, this key follows the log.
  const { tab } = useParams({ strict: false });
  const live: Command = {
    id: "live",
    label: "Follow the whole run live",
    keys: "l",
    group: "Chart",
    run: () => select(null),
  };
  useCommands([
    ...(cluster.isLive && tab !== "logs" ? [live] : []),
    {
      id: "as-table",
      label: "Time line as a table",
      keys: "t",
      group: "Chart",
      run: () => setTable(!isTable),
    },
    {
      id: "play",
      label: isPlaying ? "Pause the playback" : "Play the run",
      keys: "p",
      group: "Chart",
      run: togglePlayback,
    },
    ...(selection || playedTo !== null ? [clearPart(clear)] : []),
  ]);
  const chart = () =>
    isTable ? (
      <Suspense fallback={<Skeleton />}>
        <LanesTable label={`${cluster.name} over time`} lanes={drawn} shown={shown} />
      </Suspense>
    ) : (
      <Lanes
        label={`${cluster.name} #${cluster.number} over time.`}
        extent={extent}
        shown={shown}
        lanes={drawn}
        marks={shownMarks}
        marksNote={marksNote(marked, ended)}
        reference={reference}
        selection={selection}
        onSelect={select}
        onZoom={zoom}
        onOpenMark={onOpenMark}
        isPlaying={isPlaying}
        onPlay={onPlay}
        onPlayed={pause}
        settledUntil={cluster.isLive ? extent.to - UNSETTLED_SECONDS : null}
      />
    );
  return (
    <section className={styles.box} aria-label="Over time">
      <div className={styles.head}>
        <h2 className="h3">{selection ? "Part of the run" : "Whole run"}</h2>
        <span className={`${selection ? "" : styles.hint} faint small`}>
          {selection ? `${period(selection.from * 1000, selection.to * 1000)} UTC` : "drag to choose a part"}
          {playedTo !== null && ` · the tabs show it until ${clockSeconds(playedTo)}`}
        </span>
        {selection && (
          <Button look="ghost" size="small" onClick={() => setZoomed(!isZoomed)}>
            {isZoomed ? "Show the whole run" : "Zoom in"}
          </Button>
        )}
        {(selection || playedTo !== null) && (
          <Button look="ghost" size="small" icon="close" onClick={clear}>
            Clear
          </Button>
        )}
        <span className="grow" />
        {cluster.isLive && (
          <Button
            look="ghost"
            size="small"
            {...(selection ? {} : { icon: "check" as const })}
            aria-pressed={!selection}
            title="The time line grows with each report, until a part is chosen"
            onClick={() => select(null)}
          >
            Live
          </Button>
        )}
        {!isTable && (
          <Button look="ghost" size="small" icon={isPlaying ? "pause" : "play"} onClick={togglePlayback}>
            {isPlaying ? "Pause" : "Play back"}
          </Button>
        )}
        <LanesMenu chosen={chosen} onChange={setLanes} />
        {byFunction && byFunction.times.length > 0 && (
          <TakeAway
            label="Take away functions"
            name="threads-by-function"
            size="small"
            document={ClusterFunctionActivityDocument}
            variables={activity.variables}
            sheet={functionSheet(byFunction)}
            isTable={isTable}
            onTable={setTable}
          />
        )}
        {hasPlots && lanes.data && (
          <TakeAway
            label="Take away lanes"
            name="lanes"
            size="small"
            document={ClusterLanesDocument}
            variables={variables}
            sheet={sheet}
            isTable={isTable}
            onTable={setTable}
          />
        )}
        <Button
          look="ghost"
          size="small"
          icon="table"
          aria-pressed={isTable}
          onClick={() => setTable(!isTable)}
        >
          {isTable ? "As lanes" : "As table"}
        </Button>
      </div>
      {/* These are drawn with the other lanes; here it is said if a query failed. */}
      <div className={styles.said}>
        {byFunction && <QueryState name={FUNCTIONS_LANE.title} query={activity.query} />}
        <QueryState name="Errors, flags, events, spans and task groups" query={marks} />
        {moreSpans.isEnabled && <QueryState name="Spans after the first 100" query={moreSpans} />}
        <QueryState name="Deaths of workers" query={endedQuery} />
      </div>
      <div className={lanes.data || !hasPlots ? undefined : styles.reserved}>
        {hasPlots ? (
          <Loaded name="The time line" query={lanes} skeleton={<Skeleton rows={8} columns={6} />}>
            {chart}
          </Loaded>
        ) : (
          // Without a lane of measurements, there is no query to wait for.
          chart()
        )}
      </div>
    </section>
  );
}

function clearPart(run: () => void): Command {
  return { id: "clear-part", label: "Clear the chosen part", keys: "Escape", group: "Chart", run };
}

function choiceOfFunctions(lanes: string | undefined) {
  if (lanes === undefined) return "default";
  return lanes.split(",").includes(FUNCTIONS_LANE.id) ? "chosen" : "none";
}

function referenceAt(at: number, number: number): Reference {
  return { at, label: `last good run #${number} was done here, ${clockSeconds(at * 1000)}` };
}

/** The time between two states of a playback in the tabs, each of which asks the server. */
const PLAYED_STEP_MS = 1500;

/** One and a half intervals of reports. */
const UNSETTLED_SECONDS = 15;

function extentOf(startedAt: string, lastAt: string): TimeRange {
  const from = Date.parse(startedAt) / 1000;
  return { from, to: Math.max(from + 1, Date.parse(lastAt) / 1000) };
}

function selectionOf(from: string | undefined, to: string | undefined): TimeRange | null {
  return from && to ? { from: Date.parse(from) / 1000, to: Date.parse(to) / 1000 } : null;
}

function LanesMenu({ chosen, onChange }: { chosen: string[]; onChange(ids: string[]): void }) {
  return (
    <Menu
      trigger={
        <Button look="ghost" size="small" icon="plus">
          Lanes {chosen.length} of {ALL_LANES.length}
        </Button>
      }
    >
      {ALL_LANES.map(({ id, title }) => {
        const isChosen = chosen.includes(id);
        const next = isChosen ? chosen.filter((one) => one !== id) : [...chosen, id];
        return (
          <MenuItem key={id} isChosen={isChosen} onSelect={() => onChange(next)}>
            {title}
          </MenuItem>
        );
      })}
    </Menu>
  );
}
