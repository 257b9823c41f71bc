import { describe, expect, it } from "vitest";
import type { Answered } from "@/data/ask.ts";
import type { ClusterMoreSpansQuery, MarkedSpanFragment } from "@/data/gql/graphql.ts";
import { spansLane } from "./bar_rows.ts";
import { loadMoreSpans, withMoreSpans } from "./more_spans.ts";

const start = Date.UTC(2026, 10, 24);
const at = (second: number) => new Date(start + second * 1000).toISOString();

function span(number: number): MarkedSpanFragment {
  return {
    id: `span-${number}`,
    path: [`batch-${number}`],
    tag: `batch-${number}`,
    parent: null,
    enqueuedAt: at(number),
    startedAt: at(number),
    stoppedAt: at(number + 1),
    done: true,
    totals: { tasks: 1, tasksErred: 0, computeSeconds: 1 },
  };
}

const upTo = (total: number) => Array.from({ length: total }, (_, number) => span(number));

/** A server with this number of spans that counts its requests. */
class SpanServer {
  requests = 0;
  private readonly spans: readonly MarkedSpanFragment[];
  constructor(total: number) {
    this.spans = upTo(total);
  }

  first() {
    return { spans: { totalCount: this.spans.length, ...this.page(0) } };
  }

  load() {
    return loadMoreSpans("100", async (after): Promise<Answered<ClusterMoreSpansQuery>> => {
      this.requests += 1;
      return { data: { cluster: { id: "cluster", spans: this.page(Number(after)) } }, errors: [] };
    });
  }

  private page(from: number) {
    const to = Math.min(from + 100, this.spans.length);
    return {
      pageInfo: { hasNextPage: to < this.spans.length, endCursor: String(to) },
      nodes: this.spans.slice(from, to),
    };
  }
}

async function lane(pages: SpanServer) {
  const { data } = await pages.load();
  return spansLane(withMoreSpans(pages.first(), data), start / 1000);
}

describe("the spans beyond the first page", () => {
  it("are drawn as those before them, and asked for page by page", async () => {
    const pages = new SpanServer(361);
    const { note, rows } = await lane(pages);
    expect(note?.replaceAll("\u00a0", " ")).toBe("361 in 1 level");
    expect(rows.map((row) => row.map(({ id }) => id))).toEqual([upTo(361).map(({ id }) => id)]);
    expect(pages.requests).toBe(3);
  });

  it("end after a thousand spans, and the lane says how many are left", async () => {
    const pages = new SpanServer(1234);
    const { note, rows } = await lane(pages);
    expect(note?.replaceAll("\u00a0", " ")).toBe("1,234 in 1 level, 234 not drawn");
    expect(rows[0]?.length).toBe(1000);
    expect(pages.requests).toBe(9);
  });

  it("are drawn once if they have moved into the first page", () => {
    const first = new SpanServer(150).first();
    const { nodes } = withMoreSpans(first, [span(99), span(100)]);
    expect(nodes.map(({ id }) => id)).toEqual(upTo(101).map(({ id }) => id));
  });

  it("are those that are known if a page failed", async () => {
    const errors = [{ message: "no", path: [], code: null, requestId: null }];
    expect(await loadMoreSpans("100", async () => ({ data: { cluster: null }, errors }))).toEqual({
      data: [],
      errors,
    });
  });
});
