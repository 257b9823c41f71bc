import { describe, expect, it } from "vitest";
import { commands, serverAddress } from "../first_run/commands.ts";
import { busyThreads, cardPeriod } from "./card/busy.ts";
import { withoutTag, withTag } from "./change/tags.ts";
import {
  ALL_COLUMNS,
  allColumns,
  DEFAULT_COLUMNS,
  movedColumn,
  parseColumns,
  shownColumns,
  withColumn,
} from "./column_choice.ts";
import { exportAddress, pythonText } from "./copy_text.ts";
import {
  canStop,
  clusterName,
  finishedOf,
  type Pages,
  patchPages,
  type Row,
  rowsOf,
  shortNumber,
  sumsOfRows,
} from "./rows.ts";
import { MAX_SELECTED, toggled, withLoaded } from "./selection.ts";
import { parseViews } from "./view_store.ts";

function row(id: string, more: Partial<Row> = {}): Row {
  return { id, number: 1, schedulerId: `Scheduler-${id}`, name: id, state: "RUNNING", ...more } as Row;
}

function page(ids: string[]) {
  const clusters = { pageInfo: { hasNextPage: true, endCursor: "c" }, nodes: ids.map((id) => row(id)) };
  return { data: { viewer: { account: { liveCursor: "0", clusters } } }, errors: [] };
}

const pages = { pages: [page(["a", "b"]), page(["b", "c"])], pageParams: [null, "c"] } as unknown as Pages;

describe("the rows of the loaded pages", () => {
  it("show a cluster once, though it moved to a later page", () => {
    expect(rowsOf(pages.pages).map(({ id }) => id)).toEqual(["a", "b", "c"]);
  });
  it("take the new state of a cluster, and keep the answers of before", () => {
    const closed = row("c", { state: "CLOSED" });
    const patched = patchPages(pages, closed);
    expect(rowsOf(patched.pages).map(({ state }) => state)).toEqual(["RUNNING", "RUNNING", "CLOSED"]);
    expect(patched.pages[0]).toBe(pages.pages[0]);
    expect(patchPages(pages, row("z"))).toBe(pages);
  });
  it("name clusters and their numbers", () => {
    expect(clusterName({ name: null, schedulerId: "Scheduler-1" })).toBe("Scheduler-1");
    expect(shortNumber(4121)).toBe("#4121");
    expect(shortNumber(116_678_238_281_088)).toBe("#…1088");
  });
  it("say which clusters can stop", () => {
    expect(canStop(row("a", { state: "IDLE", desiredState: "RUNNING" }))).toBe(true);
    expect(canStop(row("a", { state: "IDLE", desiredState: "STOPPED" }))).toBe(false);
    expect(canStop(row("a", { state: "LOST", desiredState: "RUNNING" }))).toBe(false);
  });
  const answers = (value: number | null, share: number | null) =>
    row("a", { answers: { finished: { value, share, headline: "" } } } as Partial<Row>);
  it("derive the submitted computations from the share", () => {
    expect(finishedOf(answers(2, 2 / 3))).toEqual({ finished: 2, of: 3 });
    expect(finishedOf(answers(0, 0))).toEqual({ finished: 0, of: null });
    expect(finishedOf(answers(null, null))).toBeNull();
    expect(finishedOf(row("a"))).toBeNull();
  });
  it("add up what they show, unless a part is unknown", () => {
    const live = { now: { workers: 2 }, user: { id: "1" }, totals: { peakWorkers: 9 } };
    const closed = { now: null, user: { id: "2" }, totals: { peakWorkers: 3 } };
    const rows = [
      { ...answers(2, 2 / 3), ...live },
      { ...answers(1, 1), ...closed },
      { ...row("b"), ...closed },
    ] as Row[];
    expect(sumsOfRows(rows)).toEqual({ users: 2, workers: 8, finished: { finished: 3, of: 4 } });
    const unknown = [...rows, { ...answers(0, 0), ...closed, user: null }] as Row[];
    expect(sumsOfRows(unknown)).toEqual({ users: null, workers: 11, finished: null });
  });
});

describe("the selection", () => {
  it("adds and removes rows up to the maximum", () => {
    const one = toggled(new Map(), row("a"));
    expect([...one.keys()]).toEqual(["a"]);
    expect([...toggled(one, row("a")).keys()]).toEqual([]);
    const full = new Map(Array.from({ length: MAX_SELECTED }, (_, at) => [`${at}`, row(`${at}`)]));
    expect(toggled(full, row("a")).size).toBe(100);
  });
  it("has the state of the loaded rows, and keeps those that left the list", () => {
    const chosen = new Map(["a", "b"].map((id) => [id, row(id)]));
    const now = withLoaded(chosen, [row("z"), row("b", { state: "CLOSED" })]);
    expect([...now.values()].map(({ id, state }) => [id, state])).toEqual([
      ["a", "RUNNING"],
      ["b", "CLOSED"],
    ]);
  });
});

describe("the columns", () => {
  it("are those of the address, else the saved ones, else the default of the width", () => {
    expect(shownColumns("name,cost,nonsense", "state", true)).toEqual(["name", "cost"]);
    expect(shownColumns(undefined, "state,name", true)).toEqual(["state", "name"]);
    expect(shownColumns(undefined, null, true)).toEqual(DEFAULT_COLUMNS);
    expect(shownColumns(undefined, null, false)).not.toContain("memory");
    expect(parseColumns("name,name")).toEqual(["name"]);
    expect(parseColumns("")).toBeNull();
  });
  it("keep their order, and at least one", () => {
    expect(withColumn(["name", "cost"], "state", true)).toEqual(["state", "name", "cost"]);
    expect(withColumn(["cost", "name"], "user", true)).toEqual(["cost", "name", "user"]);
    expect(withColumn(["cost", "name", "user"], "name", false)).toEqual(["cost", "user"]);
    expect(withColumn(["name"], "name", false)).toEqual(["name"]);
  });
  it("move to the left, and stand among the hidden ones where they would be shown", () => {
    expect(movedColumn(["state", "name", "cost"], "cost")).toEqual(["state", "cost", "name"]);
    expect(allColumns(DEFAULT_COLUMNS)).toEqual(ALL_COLUMNS);
    const all = allColumns(["cost", "name"]);
    expect(all.toSorted()).toEqual(ALL_COLUMNS.toSorted());
    expect(all.indexOf("cost")).toBeLessThan(all.indexOf("name"));
  });
});

describe("the card of a row", () => {
  it("covers the life of the cluster, or its last 31 days, in sixty steps", () => {
    expect(cardPeriod("2026-11-24T02:00:00Z", 3600)).toEqual({ from: null, bucketSeconds: 60, isCut: false });
    expect(cardPeriod("2026-11-24T02:00:00Z", 5)).toEqual({ from: null, bucketSeconds: 15, isCut: false });
    expect(cardPeriod("2026-01-01T00:00:00Z", 41 * 86_400)).toEqual({
      from: "2026-01-11T00:00:00.000Z",
      bucketSeconds: 44_640,
      isCut: true,
    });
  });
  it("counts at most one task a thread, and leaves a gap where nothing was measured", () => {
    const tasks = [
      { at: "2026-11-24T02:00:00Z", value: 9 },
      { at: "2026-11-24T02:00:10Z", value: 5 },
      { at: "2026-11-24T02:00:30Z", value: 0 },
    ];
    const threads = [
      { at: "2026-11-24T02:00:00Z", value: 6 },
      { at: "2026-11-24T02:00:30Z", value: 6 },
    ];
    expect(busyThreads(tasks, threads, 10)).toEqual([6, null, null, 0]);
    expect(busyThreads([], [], 10)).toEqual([]);
  });
});

describe("changes of tags", () => {
  it("keep the other tags", () => {
    const tags = [
      { key: "nightly", value: null },
      { key: "team", value: "risk" },
    ];
    expect(withTag(tags, { key: "team", value: "fx" })).toEqual([
      { key: "nightly", value: null },
      { key: "team", value: "fx" },
    ]);
    expect(withoutTag(tags, "nightly")).toEqual([{ key: "team", value: "risk" }]);
  });
});

describe("what leaves the page", () => {
  it("is the query as a program, whatever the filter contains", () => {
    const text = pythonText("query Q { a }", { filter: { search: "it's '''here'''" } }, "tidewater");
    const json = /json\.loads\(r'''(.*)'''\)/.exec(text)?.[1] ?? "";
    expect(json).not.toContain("'''");
    expect(JSON.parse(json)).toEqual({ filter: { search: "it's '''here'''" } });
    expect(text).toContain('account="tidewater"');
  });
  it("is the export with the same filter and order", () => {
    const address = exportAddress("csv", { hasErrors: true }, { field: "COST", direction: "DESC" });
    expect(Object.fromEntries(new URL(address, "http://x/").searchParams)).toEqual({
      format: "csv",
      filter: '{"hasErrors":true}',
      orderBy: '{"field":"COST","direction":"DESC"}',
    });
  });
});

describe("saved views", () => {
  it("are read without what is none", () => {
    const text = '[{"name":"Mine","search":{"sort":"-cost","other":1}},{"name":3},null]';
    expect(parseViews(text)).toEqual([{ name: "Mine", search: { sort: "-cost" } }]);
    expect(parseViews('{"a":1}')).toEqual([]);
    expect(parseViews(null)).toEqual([]);
  });
});

describe("the commands of the first run", () => {
  it("name the server's root and the token", () => {
    expect(serverAddress("https://galvo.example", "/tools/galvo/")).toBe("https://galvo.example/tools/galvo");
    expect(serverAddress("http://127.0.0.1:8000", "/")).toBe("http://127.0.0.1:8000");
    expect(commands("scheduler", "http://127.0.0.1:8000", "abc")).toBe(
      "export DASK_GALVO__SERVER=http://127.0.0.1:8000\n" +
        "export DASK_GALVO__TOKEN='abc'\n" +
        "dask scheduler --preload http://127.0.0.1:8000/api/v2/analytics/preload",
    );
    expect(commands("notebook", "https://g", null)).toContain(
      'galvo.register(server="https://g", token="<token>")',
    );
  });
});
