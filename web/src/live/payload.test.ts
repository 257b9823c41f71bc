import { type MessageType, type SubscribeMessage, stringifyMessage } from "graphql-ws";
import { describe, expect, it } from "vitest";
import { subscribePayload } from "./payload.ts";

function sent(payload: ReturnType<typeof subscribePayload>) {
  const message: SubscribeMessage = { id: "1", type: "subscribe" as MessageType.Subscribe, payload };
  return JSON.parse(stringifyMessage(message)).payload;
}

describe("the payload of a subscription", () => {
  it("names a document that the server knows, without its text", () => {
    const payload = subscribePayload({
      documentId: "sha256:ab",
      text: null,
      variables: () => ({ after: "x" }),
    });
    expect(sent(payload)).toEqual({ documentId: "sha256:ab", variables: { after: "x" } });
  });

  it("has the text of any other document", () => {
    const text = "subscription { tick }";
    const payload = subscribePayload({ documentId: "sha256:ab", text, variables: () => ({}) });
    expect(sent(payload)).toEqual({ query: text, variables: {} });
  });

  it("has the variables of the moment at which it is sent", () => {
    let after = "first";
    const payload = subscribePayload({ documentId: "sha256:ab", text: null, variables: () => ({ after }) });
    expect(sent(payload).variables).toEqual({ after: "first" });
    after = "second";
    expect(sent(payload).variables).toEqual({ after: "second" });
  });
});
