import { GraphiQL } from "graphiql";
import "graphiql/style.css";
import { createRoot } from "react-dom/client";
import { EXAMPLE_HEADERS, exampleQuery } from "./example.ts";
import { fetcher } from "./fetcher.ts";
import "./page.css";

const root = document.getElementById("root");
if (!root) throw new Error("graphiql.html has no element with the id root");

createRoot(root).render(
  <GraphiQL
    fetcher={fetcher}
    defaultQuery={exampleQuery(new URL("sign-in", document.baseURI).pathname)}
    defaultHeaders={EXAMPLE_HEADERS}
    defaultEditorToolsVisibility="headers"
    isHeadersEditorEnabled
    shouldPersistHeaders
  />,
);
