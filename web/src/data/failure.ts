/** The kinds of failure that a page answers in different ways. */
export type FailureKind =
  | "signed-out"
  | "forbidden"
  | "not-found"
  | "rate-limited"
  | "timeout"
  | "unavailable"
  | "offline"
  | "refused";

/** A failed field of an answer. */
export interface FieldError {
  message: string;
  path: ReadonlyArray<string | number>;
  code: string | null;
  /** The identifier of the request in the server's log. */
  requestId: string | null;
}

/** A request that has no answer to show. */
export class Failure extends Error {
  readonly kind: FailureKind;
  readonly code: string | null;
  readonly requestId: string | null;
  readonly retryAfterSeconds: number | null;

  constructor(
    kind: FailureKind,
    message: string,
    detail: { code?: string | null; requestId?: string | null; retryAfterSeconds?: number | null } = {},
  ) {
    super(message);
    this.name = "Failure";
    this.kind = kind;
    this.code = detail.code ?? null;
    this.requestId = detail.requestId ?? null;
    this.retryAfterSeconds = detail.retryAfterSeconds ?? null;
  }
}

const KIND_BY_CODE: Record<string, FailureKind> = {
  UNAUTHENTICATED: "signed-out",
  FORBIDDEN: "forbidden",
  NOT_FOUND: "not-found",
  RATE_LIMITED: "rate-limited",
  TIMEOUT: "timeout",
  QUERY_TIMEOUT: "timeout",
  UNAVAILABLE: "unavailable",
};

/** Returns the kind of failure that an HTTP status and an error code stand for. */
export function failureKind(status: number, code: string | null): FailureKind {
  if (status === 401) return "signed-out";
  if (status === 403) return "forbidden";
  if (status === 404) return "not-found";
  if (status === 429) return "rate-limited";
  if (status === 504 || status === 408) return "timeout";
  if (status >= 500) return "unavailable";
  return (code && KIND_BY_CODE[code]) || "refused";
}
