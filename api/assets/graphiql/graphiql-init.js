// Starts GraphiQL. A file of its own, because the page's Content-Security-Policy allows no inline script.
"use strict";

// Addresses are relative to that of this page: a proxy may show the server below a path.
const SIGN_IN = new URL("sign-in", document.baseURI).pathname;

const DEFAULT_QUERY = `# The clusters of your account, newest first.
#
# Sign in at ${SIGN_IN}, or write an API token into "Headers"
# below, and press the refresh button at the lower left to
# load the schema.

query RecentClusters {
  viewer {
    user {
      name
    }
    account {
      slug
      clusters(first: 10) {
        totalCount
        nodes {
          number
          name
          state
          startedAt
          endedAt
          totals {
            tasks
            tasksErred
            errors
            computeSeconds
          }
        }
      }
    }
  }
}
`;

const DEFAULT_HEADERS = `{
  "Authorization": "Bearer "
}
`;

// Incremental delivery is off because the server does not speak multipart; asking for the
// GraphQL media type makes a rejected request a 4xx whose body still says what was wrong.
const send = GraphiQL.createFetcher({
  url: "graphql",
  enableIncrementalDelivery: false,
  headers: { Accept: "application/graphql-response+json, application/json;q=0.9" },
});

// Whoever is signed in with this browser needs no token: the cookie goes along, with what shows that it was this page
// that sent it.
const session = fetch("api/v1/session", { headers: { Accept: "application/json" } })
  .then((answer) => (answer.ok ? answer.json() : {}))
  .catch(() => ({}));

// GraphiQL asks for the schema before its header editor exists, so the kept headers
// would not go with that first request and every reload would begin with an error.
async function fetcher(request, options) {
  const isFirstRequest = request.operationName === "IntrospectionQuery" && !options?.headers;
  const headers = { ...(isFirstRequest ? keptHeaders() : options?.headers) };
  // What stands in the editor before a token is written there; any token would count before the session.
  if (/^\s*bearer\s*$/i.test(headers.Authorization ?? "")) delete headers.Authorization;
  const { csrf_token: token } = await session;
  if (token && !headers.Authorization) headers["Galvo-CSRF"] = token;
  return send(request, { ...options, headers });
}

function keptHeaders() {
  try {
    return JSON.parse(localStorage.getItem("graphiql:headers") || "{}");
  } catch {
    return {};
  }
}

ReactDOM.createRoot(document.getElementById("graphiql")).render(
  React.createElement(GraphiQL, {
    fetcher,
    defaultQuery: DEFAULT_QUERY,
    defaultHeaders: DEFAULT_HEADERS,
    defaultEditorToolsVisibility: "headers",
    isHeadersEditorEnabled: true,
    shouldPersistHeaders: true,
  }),
);
