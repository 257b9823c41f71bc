import { useLocation, useNavigate } from "@tanstack/react-router";
import { useContext } from "react";
import { useAccount } from "@/data/account.ts";
import { serverPath } from "@/data/base.ts";
import type { ShellQuery } from "@/data/gql/graphql.ts";
import { signOut } from "@/data/session.ts";
import type { IconName } from "@/ui/icon.tsx";
import { MenuItem, MenuLink } from "@/ui/menu.tsx";
import { setTheme, type Theme, useTheme } from "@/ui/theme.ts";
import { PAGES } from "./pages.ts";
import { ShellActions } from "./shell_actions.ts";

export type Viewer = ShellQuery["viewer"];

/** Returns the name of the account, or its short name until the names are there. */
export function useAccountName(viewer: Viewer | null): string {
  const account = useAccount();
  return viewer?.memberships.find(({ slug }) => slug === account)?.name ?? viewer?.account.name ?? account;
}

/** The accounts of the user, of which one is shown. */
export function AccountItems({ viewer }: { viewer: Viewer | null }) {
  const account = useAccount();
  const navigate = useNavigate();
  const { pathname } = useLocation();
  // The other account opens on the same page. What the page shows of this account has no place there.
  const page = PAGES.findLast(({ to }) => pathname.startsWith(to.replace("$account", account))) ?? PAGES[0];
  return (viewer?.memberships ?? []).map((membership) => (
    <MenuItem
      key={membership.slug}
      isChosen={membership.slug === account}
      onSelect={() =>
        void navigate({ to: page?.to ?? "/$account", params: { account: membership.slug }, search: {} })
      }
    >
      {membership.name} <span className="faint small">{membership.role.toLowerCase()}</span>
    </MenuItem>
  ));
}

const THEMES: { theme: Theme; label: string; icon: IconName }[] = [
  { theme: "light", label: "Light", icon: "light" },
  { theme: "dark", label: "Dark", icon: "dark" },
  { theme: "system", label: "As the system", icon: "system" },
];

/** The settings of the user and the end of the session. */
export function UserItems() {
  const theme = useTheme();
  const { openKeys } = useContext(ShellActions);
  return (
    <>
      {THEMES.map((choice) => (
        <MenuItem
          key={choice.theme}
          icon={choice.icon}
          isChosen={choice.theme === theme}
          onSelect={() => setTheme(choice.theme)}
        >
          {choice.label}
        </MenuItem>
      ))}
      <MenuItem icon="keyboard" onSelect={openKeys}>
        Keys
      </MenuItem>
      <MenuLink icon="key" to={serverPath("password")}>
        Password
      </MenuLink>
      <MenuItem icon="leave" onSelect={() => void signOut()}>
        Sign out
      </MenuItem>
    </>
  );
}
