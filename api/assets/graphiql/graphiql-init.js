// Starts GraphiQL. A file of its own, because the page's Content-Security-Policy allows no inline script.
"use strict";

const DEFAULT_QUERY = `# The clusters of your token's account, newest first.
#
# Write an API token into "Headers" below and press the
# refresh button at the lower left to load the schema.

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
  url: "/graphql",
  enableIncrementalDelivery: false,
  headers: { Accept: "application/graphql-response+json, application/json;q=0.9" },
});

// GraphiQL asks for the schema before its header editor exists, so the kept headers
// would not go with that first request and every reload would begin with an error.
function fetcher(request, options) {
  const isFirstRequest = request.operationName === "IntrospectionQuery" && !options?.headers;
  return send(request, isFirstRequest ? { ...options, headers: keptHeaders() } : options);
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
