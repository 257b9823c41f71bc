import { ShellDocument } from "@/data/gql/graphql.ts";
import { useAsk } from "@/data/queries.ts";

/** Asks for the user and the accounts, which rarely change. */
export function useShell() {
  return useAsk(ShellDocument, {}, { staleSeconds: 300 });
}
