import { Outlet, useParams } from "@tanstack/react-router";
import { AccountContext } from "@/data/account.ts";
import { FirstRunGate } from "@/panels/first_run/gate.tsx";
import { Shell } from "@/panels/shell/shell.tsx";

/** All pages of an account, in the shell. */
export function AccountPages() {
  const { account } = useParams({ from: "/$account" });
  return (
    <AccountContext value={account}>
      <Shell>
        <FirstRunGate>
          <Outlet />
        </FirstRunGate>
      </Shell>
    </AccountContext>
  );
}
