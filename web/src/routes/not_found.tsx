import { basePath } from "@/data/base.ts";
import { buttonClass } from "@/ui/button.tsx";

/** The page for an address that leads nowhere. */
export function NotFound() {
  return (
    <main className="main" id="content" tabIndex={-1}>
      <h1 className="h1">There is no such page</h1>
      <p className="muted spaced">
        The address is wrong, its object was deleted, or you are not a member of its account.
      </p>
      <p>
        <a className={buttonClass()} href={basePath}>
          Overview
        </a>
      </p>
    </main>
  );
}
