import { CSPProvider } from "@base-ui/react/csp-provider";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { createQueryClient } from "./data/queries.ts";
import { recoverQueries } from "./data/recovery.ts";
import { session } from "./data/session.ts";
import { preloadPages } from "./routes/preload.ts";
import { createAppRouter } from "./routes/router.tsx";

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no element with the id root");

// The first query needs the session, which is read while the scripts of the page are loaded. A failure is
// shown by that query.
session().catch(() => undefined);

const client = createQueryClient();
recoverQueries(client);
const router = createAppRouter(client);
preloadPages(router);

createRoot(root).render(
  <StrictMode>
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={client}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </CSPProvider>
  </StrictMode>,
);
