/** The operation of a subscription. */
interface Operation {
  documentId: string;
  /** The document itself, for a server that does not know it. */
  text: string | null;
  /** Called each time the payload is sent, after a reconnect as well. */
  variables(): Record<string, unknown>;
}

/** Returns the payload of the message `subscribe`. */
export function subscribePayload({ documentId, text, variables }: Operation) {
  return {
    // graphql-ws requires a document, and the server rejects one beside its id.
    query: text ?? "",
    toJSON: () => ({ ...(text === null ? { documentId } : { query: text }), variables: variables() }),
  };
}
