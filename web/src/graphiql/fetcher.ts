import { createGraphiQLFetcher, type Fetcher } from "@graphiql/toolkit";

type Headers = Record<string, unknown>;

// Incremental delivery is off because the server does not send multipart responses. With the GraphQL media
// type, a rejected request gets a 4xx status and a body with the reason.
const send = createGraphiQLFetcher({
  url: "graphql",
  enableIncrementalDelivery: false,
  headers: { Accept: "application/graphql-response+json, application/json;q=0.9" },
});

/** The CSRF token of the browser's session, undefined without one. A session makes an API token unnecessary. */
const csrfToken: Promise<string | undefined> = fetch("api/v1/session", {
  headers: { Accept: "application/json" },
})
  .then((response) => (response.ok ? response.json() : {}))
  .then((session: { csrf_token?: string }) => session.csrf_token)
  .catch(() => undefined);

/** Sends an operation with the headers of the editor, or else with the session of the browser. */
export const fetcher: Fetcher = async (request, options) => {
  // GraphiQL requests the schema before its header editor exists, and so without the stored headers.
  const isFirst = request.operationName === "IntrospectionQuery" && !options?.headers;
  const headers: Headers = { ...(isFirst ? storedHeaders() : options?.headers) };
  // A header without a token would take precedence over the session.
  if (/^\s*bearer\s*$/i.test(String(headers.Authorization ?? ""))) delete headers.Authorization;
  const token = await csrfToken;
  if (token && !headers.Authorization) headers["Galvo-CSRF"] = token;
  return send(request, { ...options, headers: headers as Record<string, string> });
};

function storedHeaders(): Headers {
  try {
    return JSON.parse(localStorage.getItem("graphiql:headers") || "{}");
  } catch {
    return {};
  }
}
