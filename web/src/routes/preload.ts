import { menuParts, popoverParts } from "@/ui/popups.ts";
import type { AppRouter } from "./router.tsx";

const DELAY_MS = 2_000;
/** The time for which a page stays while the script of the next one loads, in milliseconds. */
const PENDING_MS = 400;

/**
 * Loads the scripts of all pages and tabs once the first page is shown and the browser is idle, so that the
 * other pages open at once, and while the server is away as well.
 */
export function preloadPages(router: AppRouter): void {
  const stop = router.subscribe("onRendered", () => {
    stop();
    router.update({ ...router.options, defaultPendingMs: PENDING_MS });
    const connection = (navigator as { connection?: { saveData?: boolean } }).connection;
    if (!connection?.saveData) setTimeout(() => void loadAll(router), DELAY_MS);
  });
}

async function loadAll(router: AppRouter): Promise<void> {
  // A script that cannot be loaded is requested again when its page is opened.
  const routes = Object.values(router.routesById).map((route) => router.loadRouteChunk(route));
  await Promise.allSettled([...routes, menuParts.load(), popoverParts.load()]);
  const { preloadTabs } = await import("./cluster/tabs.ts");
  await preloadTabs();
}
