import { Link } from "@tanstack/react-router";
import { useContext } from "react";
import { useAccount } from "@/data/account.ts";
import { Icon, Mark } from "@/ui/icon.tsx";
import { Menu, MenuGroup } from "@/ui/menu.tsx";
import { type Count, type Counts, useCounts } from "./counts.ts";
import { AccountItems, UserItems, useAccountName, type Viewer } from "./menu_items.tsx";
import { type NavigationPage, PAGES } from "./pages.ts";
import styles from "./shell.module.css";
import { ShellActions } from "./shell_actions.ts";

export function Navigation({ viewer }: { viewer: Viewer | null }) {
  const account = useAccount();
  const counts = useCounts();
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
            title={[label, ...(counts[to] ?? []).map(({ text }) => text)].join(", ")}
            data-tone={urgentTone(counts, to)}
          >
            <Icon name={icon} />
            <span className={`${styles.word} grow`}>{label}</span>
            <CountTexts counts={counts[to]} />
          </Link>
        ))}
      </div>
      <div className={styles.foot}>
        <UserMenu viewer={viewer} />
      </div>
    </nav>
  );
}

/** Returns the tone of the dot that stands for the numbers where there is no room for them. */
function urgentTone(counts: Counts, to: NavigationPage["to"]): Count["tone"] | undefined {
  return counts[to]?.find(({ tone }) => tone !== "plain")?.tone;
}

function CountTexts({ counts }: { counts: readonly Count[] | undefined }) {
  return counts?.map(({ text, tone }) => (
    <span key={text} className={`${styles.count} num`} data-tone={tone}>
      {text}
    </span>
  ));
}

function AccountSwitch({ viewer }: { viewer: Viewer | null }) {
  const name = useAccountName(viewer);
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
      <AccountItems viewer={viewer} />
    </Menu>
  );
}

function UserMenu({ viewer }: { viewer: Viewer | null }) {
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
        <UserItems />
      </Menu>
    </div>
  );
}

/** The navigation of narrow screens. Its last entry has both menus of the wide ones. */
export function MobileNavigation({ viewer }: { viewer: Viewer | null }) {
  const account = useAccount();
  const counts = useCounts();
  return (
    <nav className={styles.mobile} aria-label="Main">
      {PAGES.map(({ to, label, icon }) => (
        <Link
          key={to}
          to={to}
          params={{ account }}
          activeOptions={{ exact: to === "/$account", includeSearch: false }}
          data-tone={urgentTone(counts, to)}
        >
          <Icon name={icon} />
          {label}
          <CountTexts counts={counts[to]} />
        </Link>
      ))}
      <Menu
        side="top"
        trigger={
          <button type="button">
            <Icon name="more" />
            More
          </button>
        }
      >
        <MenuGroup label="Account">
          <AccountItems viewer={viewer} />
        </MenuGroup>
        <MenuGroup label={viewer?.user.name ?? "You"}>
          <UserItems />
        </MenuGroup>
      </Menu>
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
