import { useShell } from "@/panels/shell/use_shell.ts";

export const NOT_ADMIN = "Owners and admins of the account can change clusters";

/** Returns true if the user may change the account's clusters. False while that is not known. */
export function useIsAdmin(): boolean {
  return useShell().data?.data.viewer.scopes.includes("ADMIN") ?? false;
}
