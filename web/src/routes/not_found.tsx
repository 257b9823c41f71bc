import { basePath } from "@/data/base.ts";
import { buttonClass } from "@/ui/button.tsx";

/** The page for an address that leads nowhere. */
export function NotFound() {
  return (
    <main className="main" id="content" tabIndex={-1}>
      <h1 className="h1">There is no such page</h1>
      <p className="muted spaced">
        The address may be mistyped, or what it shows was deleted, or it belongs to an account of which you
        are not a member.
      </p>
      <p>
        <a className={buttonClass()} href={basePath}>
          Overview
        </a>
      </p>
    </main>
  );
}
