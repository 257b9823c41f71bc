import { serverPath } from "./base.ts";
import { Failure, type FieldError, failureKind } from "./failure.ts";
import type { TypedDocumentString } from "./gql/graphql.ts";
import { isUnavailable, markReachable, markUnreachable } from "./reachability.ts";
import { goToSignIn, session } from "./session.ts";

/** A document that the code generator made, known to the server by its SHA-256. */
export type Document<Result, Variables> = TypedDocumentString<Result, Variables>;

/** An answer: the data, without the fields that failed, and their errors. */
export interface Answered<Result> {
  data: Result;
  errors: FieldError[];
}

export interface AskOptions {
  account: string | null;
  signal?: AbortSignal;
}

interface Body {
  data?: unknown;
  errors?: { message: string; path?: (string | number)[]; extensions?: { code?: string } }[];
}

const MAX_ATTEMPTS = 4;
const MAX_WAIT_SECONDS = 30;
const UNKNOWN_DOCUMENT = new Set(["PERSISTED_QUERY_NOT_FOUND", "PERSISTED_QUERY_NOT_SUPPORTED"]);

// Set once the server said that it does not have the documents of this build.
let sendsText = false;

/** Returns the document's identifier: `sha256:` and 64 hexadecimal digits. */
export function documentId<R, V>(document: Document<R, V>): string {
  return String(document.__meta__?.hash);
}

/**
 * Sends the operation and returns its answer. A CSRF token that has changed is read again, once. A refusal by
 * the rate limit is repeated after the time that the server names. Throws `Failure` if there is no data.
 */
export async function ask<Result, Variables>(
  document: Document<Result, Variables>,
  variables: Variables,
  options: AskOptions,
): Promise<Answered<Result>> {
  let renewed = false;
  for (let attempt = 1; ; attempt++) {
    const { csrfToken } = await currentSession(false);
    const asText = sendsText;
    const response = await send(document, variables, csrfToken, asText, options);
    const body = (await response.json().catch(() => ({}))) as Body;
    const requestId = response.headers.get("x-request-id");
    const code = body.errors?.[0]?.extensions?.code ?? problemCode(body);

    if (code && UNKNOWN_DOCUMENT.has(code) && !asText) {
      sendsText = true;
      continue;
    }
    if (response.status === 403 && code === "CSRF" && !renewed) {
      renewed = true;
      await currentSession(true);
      continue;
    }
    if (response.status === 401 || code === "UNAUTHENTICATED") {
      goToSignIn();
      throw new Failure("signed-out", "The session has ended.", { code, requestId });
    }
    if (response.status === 429 && attempt < MAX_ATTEMPTS) {
      await wait(retryAfter(response, attempt), options.signal);
      continue;
    }
    if (body.data === undefined || body.data === null) {
      const message = body.errors?.[0]?.message ?? `The server answered ${response.status}.`;
      throw new Failure(failureKind(response.status, code), message, {
        code,
        requestId,
        retryAfterSeconds: response.status === 429 ? retryAfter(response, attempt) : null,
      });
    }
    return { data: body.data as Result, errors: fieldErrors(body, requestId) };
  }
}

async function currentSession(renew: boolean) {
  try {
    return await session(renew);
  } catch (error) {
    if (error instanceof Failure && error.kind === "signed-out") goToSignIn();
    if (error instanceof Failure && (error.kind === "offline" || error.kind === "unavailable"))
      markUnreachable();
    throw error;
  }
}

async function send<R, V>(
  document: Document<R, V>,
  variables: V,
  csrf: string,
  asText: boolean,
  options: AskOptions,
) {
  const id = documentId(document);
  const operation = asText ? { query: await documentText(id) } : { documentId: id };
  const headers: Record<string, string> = {
    Accept: "application/graphql-response+json",
    "Content-Type": "application/json",
    "Galvo-CSRF": csrf,
  };
  if (options.account) headers["Galvo-Account"] = options.account;
  try {
    const response = await fetch(serverPath("graphql"), {
      method: "POST",
      credentials: "same-origin",
      headers,
      body: JSON.stringify({ ...operation, variables }),
      ...(options.signal ? { signal: options.signal } : {}),
    });
    if (isUnavailable(response.status)) markUnreachable();
    else if (response.status < 500) markReachable();
    return response;
  } catch (error) {
    if (options.signal?.aborted) throw error;
    markUnreachable();
    throw new Failure("offline", "The server cannot be reached.");
  }
}

/** Returns the text of a document, for a server that does not know it yet. */
export async function documentText(id: string): Promise<string> {
  const { default: texts } = await import("./gql/persisted-documents.json");
  const text = (texts as Record<string, string>)[id];
  if (text === undefined) throw new Failure("refused", `This build has no document ${id}.`);
  return text;
}

/** Returns true if documents are sent as text, because the server does not know this build's documents. */
export function sendsDocumentText(): boolean {
  return sendsText;
}

function problemCode(body: unknown): string | null {
  const problem = body as { code?: unknown; error?: { code?: unknown } };
  const code = problem.code ?? problem.error?.code;
  return typeof code === "string" ? code : null;
}

function fieldErrors(body: Body, requestId: string | null): FieldError[] {
  return (body.errors ?? []).map(({ message, path, extensions }) => ({
    message,
    path: path ?? [],
    code: extensions?.code ?? null,
    requestId,
  }));
}

function retryAfter(response: Response, attempt: number): number {
  const seconds = Number(response.headers.get("retry-after"));
  return Number.isFinite(seconds) && seconds > 0 ? Math.min(seconds, MAX_WAIT_SECONDS) : 2 ** attempt;
}

function wait(seconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
