import { ShellDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";

export const NOT_ADMIN = "Owners and admins of the account can change clusters";

/** Returns true if the user may change the account's clusters. False while that is not known. */
export function useIsAdmin(): boolean {
  const shell = useAsk(ShellDocument, {}, { staleSeconds: 300 });
  return shell.data?.data.viewer.scopes.includes("ADMIN") ?? false;
}
