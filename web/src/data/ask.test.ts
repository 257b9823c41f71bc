import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Document } from "./ask.ts";

const document = { __meta__: { hash: "sha256:abc" } } as unknown as Document<{ a: number }, { x: number }>;

interface Sent {
  path: string;
  headers: Record<string, string>;
  body: Record<string, unknown>;
}

let sent: Sent[] = [];
let answers: Response[] = [];
let sessions = 0;

const json = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers });
const refused = (status: number, code: string, headers: Record<string, string> = {}) =>
  json(status, { errors: [{ message: code, extensions: { code } }] }, headers);

beforeEach(() => {
  vi.resetModules();
  sent = [];
  sessions = 0;
  vi.stubGlobal("location", { pathname: "/team/clusters", search: "?q=a&b=c", hash: "", assign: vi.fn() });
  vi.stubGlobal("fetch", async (path: string, options: RequestInit) => {
    if (path.endsWith("api/v1/session")) {
      sessions += 1;
      return json(200, { username: "ada", csrf_token: `token-${sessions}`, expires_at: "" });
    }
    const body = JSON.parse(String(options.body)) as Record<string, unknown>;
    sent.push({ path, headers: options.headers as Record<string, string>, body });
    const answer = answers.shift();
    if (!answer) throw new TypeError("network");
    return answer;
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function askOnce() {
  const { ask } = await import("./ask.ts");
  return ask(document, { x: 1 }, { account: "team" });
}

describe("a request", () => {
  it("names its document, its account and the session's token", async () => {
    answers = [json(200, { data: { a: 1 } })];
    expect(await askOnce()).toEqual({ data: { a: 1 }, errors: [] });
    expect(sent[0]?.body).toEqual({ documentId: "sha256:abc", variables: { x: 1 } });
    expect(sent[0]?.headers).toMatchObject({ "Galvo-CSRF": "token-1", "Galvo-Account": "team" });
  });

  it("keeps the data of the fields that did not fail", async () => {
    const errors = [{ message: "too slow", path: ["a", 0], extensions: { code: "TIMEOUT" } }];
    answers = [json(200, { data: { a: null }, errors }, { "x-request-id": "7f3a" })];
    expect(await askOnce()).toEqual({
      data: { a: null },
      errors: [{ message: "too slow", path: ["a", 0], code: "TIMEOUT", requestId: "7f3a" }],
    });
  });

  it("reads a changed CSRF token again, once", async () => {
    answers = [refused(403, "CSRF"), json(200, { data: { a: 2 } })];
    expect((await askOnce()).data).toEqual({ a: 2 });
    expect(sent.map(({ headers }) => headers["Galvo-CSRF"])).toEqual(["token-1", "token-2"]);

    answers = [refused(403, "CSRF"), refused(403, "CSRF")];
    await expect(askOnce()).rejects.toMatchObject({ kind: "forbidden", code: "CSRF" });
  });

  it("waits as long as the rate limit says, and gives up after four attempts", async () => {
    const { ask } = await import("./ask.ts");
    vi.useFakeTimers();
    const before = Date.now();
    answers = [refused(429, "RATE_LIMITED", { "retry-after": "3" }), json(200, { data: { a: 3 } })];
    const answered = ask(document, { x: 1 }, { account: "team" });
    await vi.runAllTimersAsync();
    expect((await answered).data).toEqual({ a: 3 });
    expect(Date.now() - before).toBe(3000);

    answers = Array.from({ length: 4 }, () => refused(429, "RATE_LIMITED", { "retry-after": "1" }));
    const failed = ask(document, { x: 1 }, { account: "team" }).catch((error: unknown) => error);
    await vi.runAllTimersAsync();
    expect(await failed).toMatchObject({ kind: "rate-limited", retryAfterSeconds: 1 });
    expect(answers).toEqual([]);
  });

  it("leaves for the sign-in page when the session has ended, with the way back", async () => {
    answers = [refused(401, "UNAUTHENTICATED")];
    await expect(askOnce()).rejects.toMatchObject({ kind: "signed-out" });
    expect(location.assign).toHaveBeenCalledWith("/sign-in?return_to=%2Fteam%2Fclusters%3Fq%3Da%26b%3Dc");
  });

  it.each([
    [504, "TIMEOUT", "timeout"],
    [503, "UNAVAILABLE", "unavailable"],
    [400, "BAD_USER_INPUT", "refused"],
  ])("with the status %d and %s fails as %s, with the request's id", async (status, code, kind) => {
    answers = [refused(status, code, { "x-request-id": "7f3a" })];
    await expect(askOnce()).rejects.toMatchObject({ kind, code, requestId: "7f3a" });
  });

  it("takes the answer of a proxy whose server is away as none", async () => {
    const { unreachableSince } = await import("./reachability.ts");
    answers = [new Response("Bad Gateway", { status: 502 })];
    await expect(askOnce()).rejects.toMatchObject({ kind: "unavailable" });
    expect(unreachableSince()).not.toBeNull();
  });

  it("says that the server cannot be reached, until it answers", async () => {
    const { unreachableSince } = await import("./reachability.ts");
    answers = [];
    await expect(askOnce()).rejects.toBeInstanceOf(Error);
    expect(unreachableSince()).not.toBeNull();
    answers = [json(200, { data: { a: 1 } })];
    await askOnce();
    expect(unreachableSince()).toBeNull();
  });

  it("sends the text to a server that does not know the document, from then on", async () => {
    vi.doMock("./gql/persisted-documents.json", () => ({ default: { "sha256:abc": "query A { a }" } }));
    answers = [
      refused(400, "PERSISTED_QUERY_NOT_SUPPORTED"),
      json(200, { data: { a: 1 } }),
      json(200, { data: { a: 2 } }),
    ];
    await askOnce();
    await askOnce();
    expect(sent.map(({ body }) => body.documentId ?? body.query)).toEqual([
      "sha256:abc",
      "query A { a }",
      "query A { a }",
    ]);
  });
});
