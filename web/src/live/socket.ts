import type { Client } from "graphql-ws";
import { type Document, documentId, documentText, sendsDocumentText } from "@/data/ask.ts";
import { serverPath } from "@/data/base.ts";
import { goToSignIn } from "@/data/session.ts";
import { subscribePayload } from "./payload.ts";
import { liveState, setLiveState } from "./status.ts";

const HIDDEN_SECONDS = 60;
/** The code with which the server closes the socket of a session that has ended. */
const SIGNED_OUT = 4401;

/** One socket for all subscriptions of an account. */
interface Connection {
  account: string;
  client: Client;
}

let connection: Connection | null = null;
let subscribers = 0;

async function connect(account: string): Promise<Client> {
  if (connection?.account === account) return connection.client;
  connection?.client.dispose();
  const { createClient } = await import("graphql-ws");
  const address = new URL(serverPath("graphql"), location.href);
  address.protocol = address.protocol.replace("http", "ws");
  setLiveState({ kind: "connecting" });
  const client = createClient({
    url: address.href,
    connectionParams: { "Galvo-Account": account },
    lazy: true,
    lazyCloseTimeout: 5_000,
    keepAlive: 15_000,
    retryAttempts: Number.POSITIVE_INFINITY,
    // Only events of the socket are retried: an error of a message would occur again at once.
    shouldRetry: (reason) => !(reason instanceof Error),
    on: {
      connected: () => setLiveState({ kind: "live", lastPayloadAt: Date.now() }),
      closed: () => {
        if (subscribers === 0) setLiveState({ kind: "off" });
        else if (liveState().kind !== "paused" && liveState().kind !== "reconnecting")
          setLiveState({ kind: "reconnecting", since: Date.now() });
      },
    },
  });
  connection = { account, client };
  return client;
}

export interface Subscription<Result> {
  onPayload(data: Result): void;
  onFailure?(message: string): void;
}

/**
 * Subscribes to a document and returns the function that ends it. The variables are read for each connection,
 * so that a subscription resumes after the cursor of its last payload.
 */
export function subscribe<Result, Variables extends Record<string, unknown>>(
  account: string,
  document: Document<Result, Variables>,
  variables: () => Variables,
  subscription: Subscription<Result>,
): () => void {
  let hasEnded = false;
  let stop: (() => void) | null = null;
  subscribers += 1;

  const start = async () => {
    const client = await connect(account);
    const id = documentId(document);
    const text = sendsDocumentText() ? await documentText(id) : null;
    if (hasEnded) return;
    const payload = subscribePayload({ documentId: id, text, variables });
    stop = client.subscribe<Result>(payload, {
      next: (value) => {
        setLiveState({ kind: "live", lastPayloadAt: Date.now() });
        if (value.data) subscription.onPayload(value.data as Result);
        else subscription.onFailure?.(value.errors?.[0]?.message ?? "The live update has no data.");
      },
      error: (error) => {
        if (error instanceof CloseEvent && error.code === SIGNED_OUT) goToSignIn();
        subscription.onFailure?.(Array.isArray(error) ? String(error[0]?.message) : String(error));
      },
      complete: () => {},
    });
  };

  let hiddenTimer: ReturnType<typeof setTimeout> | undefined;
  const onVisibility = () => {
    clearTimeout(hiddenTimer);
    if (page.hidden) {
      hiddenTimer = setTimeout(() => {
        stop?.();
        stop = null;
        setLiveState({ kind: "paused" });
      }, HIDDEN_SECONDS * 1000);
    } else if (!stop) {
      void start();
    }
  };
  page.addEventListener("visibilitychange", onVisibility);
  void start();

  return () => {
    hasEnded = true;
    subscribers -= 1;
    clearTimeout(hiddenTimer);
    page.removeEventListener("visibilitychange", onVisibility);
    stop?.();
    if (subscribers === 0) setLiveState({ kind: "off" });
  };
}

const page = globalThis.document;
