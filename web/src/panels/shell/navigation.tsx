import { Link, useLocation, useNavigate } from "@tanstack/react-router";
import { useContext } from "react";
import { useAccount } from "@/data/account.ts";
import { serverPath } from "@/data/base.ts";
import type { ShellQuery } from "@/data/gql/graphql.ts";
import { Icon, type IconName, Mark } from "@/ui/icon.tsx";
import { Menu, MenuItem } from "@/ui/menu.tsx";
import { setTheme, type Theme, useTheme } from "@/ui/theme.ts";
import { PAGES } from "./pages.ts";
import styles from "./shell.module.css";
import { ShellActions } from "./shell_actions.ts";

type Viewer = ShellQuery["viewer"];

export function Navigation({ viewer }: { viewer: Viewer | null }) {
  const account = useAccount();
  return (
    <nav className="side" aria-label="Main">
      <div className="brand">
        <Mark />
        <span className={styles.word}>Galvo</span>
      </div>
      <AccountSwitch viewer={viewer} />
      <div className={styles.nav}>
        {PAGES.map(({ to, label, icon }) => (
          <Link
            key={to}
            to={to}
            params={{ account }}
            className={styles.item}
            activeOptions={{ exact: to === "/$account", includeSearch: false }}
            title={label}
          >
            <Icon name={icon} />
            <span className={styles.word}>{label}</span>
          </Link>
        ))}
      </div>
      <div className={styles.foot}>
        <UserMenu viewer={viewer} />
      </div>
    </nav>
  );
}

function AccountSwitch({ viewer }: { viewer: Viewer | null }) {
  const account = useAccount();
  const navigate = useNavigate();
  const { pathname } = useLocation();
  // The other account opens on the same page. What the page shows of this account has no place there.
  const page = PAGES.findLast(({ to }) => pathname.startsWith(to.replace("$account", account))) ?? PAGES[0];
  const name =
    viewer?.memberships.find(({ slug }) => slug === account)?.name ?? viewer?.account.name ?? account;
  return (
    <Menu
      trigger={
        <button
          type="button"
          className={styles.account}
          aria-label={`${name}, switch the account`}
          title={name}
        >
          <span className={styles.initial} data-initial={name.slice(0, 1).toUpperCase()} />
          <span className={`${styles.word} grow truncated`}>{name}</span>
          <span className={styles.word}>
            <Icon name="account" />
          </span>
        </button>
      }
    >
      {(viewer?.memberships ?? []).map((membership) => (
        <MenuItem
          key={membership.slug}
          isChosen={membership.slug === account}
          onSelect={() =>
            void navigate({ to: page?.to ?? "/$account", params: { account: membership.slug }, search: {} })
          }
        >
          {membership.name} <span className="faint small">{membership.role.toLowerCase()}</span>
        </MenuItem>
      ))}
    </Menu>
  );
}

const THEMES: { theme: Theme; label: string; icon: IconName }[] = [
  { theme: "light", label: "Light", icon: "light" },
  { theme: "dark", label: "Dark", icon: "dark" },
  { theme: "system", label: "As the system", icon: "system" },
];

function UserMenu({ viewer }: { viewer: Viewer | null }) {
  const theme = useTheme();
  const { openKeys } = useContext(ShellActions);
  const name = viewer?.user.name ?? "";
  return (
    <div className={styles.me}>
      <Menu
        side="top"
        trigger={
          <button type="button" className={`${styles.user} ${styles.item}`} aria-label={`${name}, settings`}>
            <span className={styles.person} data-initial={name.slice(0, 2).toUpperCase()} />
            <span className={`${styles.word} grow truncated`}>{name}</span>
          </button>
        }
      >
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
        <MenuItem icon="user" onSelect={() => location.assign(serverPath("sign-in"))}>
          Sign out, password
        </MenuItem>
      </Menu>
    </div>
  );
}

/** The navigation of narrow screens. */
export function MobileNavigation() {
  const account = useAccount();
  return (
    <nav className={styles.mobile} aria-label="Main">
      {PAGES.map(({ to, label, icon }) => (
        <Link
          key={to}
          to={to}
          params={{ account }}
          activeOptions={{ exact: to === "/$account", includeSearch: false }}
        >
          <Icon name={icon} />
          {label}
        </Link>
      ))}
    </nav>
  );
}

/** The button that opens the palette. */
export function SearchButton() {
  const { openPalette } = useContext(ShellActions);
  return (
    <button type="button" className={styles.search} onClick={openPalette} aria-label="Search or jump to">
      <Icon name="search" />
      <span>Search or jump to</span>
      <kbd className={styles.key}>/</kbd>
    </button>
  );
}
