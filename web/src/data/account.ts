import { createContext, useContext } from "react";

/** The short name of the account whose pages are shown. */
export const AccountContext = createContext<string | null>(null);

export function useAccount(): string {
  const account = useContext(AccountContext);
  if (account === null) throw new Error("useAccount outside of an account's pages");
  return account;
}
