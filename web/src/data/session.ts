import { basePath, serverPath } from "./base.ts";
import { Failure, failureKind } from "./failure.ts";

/** The browser's session at the server. */
export interface Session {
  username: string;
  csrfToken: string;
  expiresAt: string;
}

let current: Promise<Session> | null = null;

/** Returns the session. Several callers share one request; `renew` asks the server again. */
export function session(renew = false): Promise<Session> {
  if (renew || !current) {
    current = readSession();
    current.catch(() => {
      current = null;
    });
  }
  return current;
}

declare global {
  /** The request that early.js sent while the scripts were loaded. */
  var galvoSession: Promise<Response> | undefined;
}

function requestSession(): Promise<Response> {
  const early = globalThis.galvoSession;
  globalThis.galvoSession = undefined;
  if (early) return early;
  return fetch(serverPath("api/v1/session"), { headers: { Accept: "application/json" }, cache: "no-store" });
}

async function readSession(): Promise<Session> {
  let response: Response;
  try {
    response = await requestSession();
  } catch {
    throw new Failure("offline", "The server cannot be reached.");
  }
  if (!response.ok) {
    throw new Failure(failureKind(response.status, null), `The session was refused: ${response.status}.`, {
      requestId: response.headers.get("x-request-id"),
    });
  }
  const body = (await response.json()) as { username: string; csrf_token: string; expires_at: string };
  return { username: body.username, csrfToken: body.csrf_token, expiresAt: body.expires_at };
}

/** Returns the address of the sign-in page that leads back to `here`, a path of this origin. */
export function signInAddress(here: string): string {
  return `${basePath}sign-in?return_to=${encodeURIComponent(here)}`;
}

let isLeaving = false;

/** Leaves for the sign-in page, once. */
export function goToSignIn(): void {
  if (isLeaving) return;
  isLeaving = true;
  location.assign(signInAddress(location.pathname + location.search + location.hash));
}

/**
 * Ends the session with a form, as the server's own pages do. The server answers with the sign-in page, and a
 * browser that cannot reach it says so.
 */
export async function signOut(): Promise<void> {
  const known = await session().catch(() => null);
  // The token has changed if the browser signed in again in another tab.
  const latest = await session(true).catch(() => known);
  // A request that fails because the session has ended must not navigate elsewhere meanwhile.
  isLeaving = true;
  const form = document.createElement("form");
  form.method = "post";
  form.action = serverPath("sign-out");
  const field = document.createElement("input");
  field.type = "hidden";
  field.name = "csrf";
  field.value = latest?.csrfToken ?? "";
  form.append(field);
  document.body.append(form);
  form.submit();
}
