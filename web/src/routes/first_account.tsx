import { Navigate } from "@tanstack/react-router";
import { ShellDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";
import { Loaded } from "@/ui/panel.tsx";

/** Leads from `/` to the overview of the viewer's default account. */
export function FirstAccount() {
  const shell = useAsk(ShellDocument, {});
  return (
    <main className="main">
      <Loaded name="Your accounts" query={shell} skeleton={null}>
        {({ viewer }) => <Navigate to="/$account" params={{ account: viewer.account.slug }} replace />}
      </Loaded>
    </main>
  );
}
