import { Skeleton } from "@/ui/panel.tsx";

/** The place of a page whose script is loading. */
export function PendingPage() {
  return (
    <main className="main" id="content" tabIndex={-1}>
      <Skeleton rows={6} columns={4} />
    </main>
  );
}
