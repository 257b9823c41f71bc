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

/** The time for which the first render waits for the code of the page. */
const PAGE_DELAY_MS = 150;

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no element with the id root");

// The first query needs the session, which is read while the scripts of the page are loaded. A failure is
// shown by that query.
session().catch(() => undefined);

const client = createQueryClient();
recoverQueries(client);
const router = createAppRouter(client);
preloadPages(router);

const app = (
  <StrictMode>
    <CSPProvider disableStyleElements>
      <QueryClientProvider client={client}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </CSPProvider>
  </StrictMode>
);
// The code of the page is usually there by now, and the page is then rendered once instead of after its frame.
const soon = new Promise((resolve) => setTimeout(resolve, PAGE_DELAY_MS));
void Promise.race([router.load(), soon]).finally(() => createRoot(root).render(app));
