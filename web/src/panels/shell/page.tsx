import { Link, useLocation, useNavigate } from "@tanstack/react-router";
import { type ReactNode, useEffect } from "react";
import { useAccount } from "@/data/account.ts";
import { useCommands } from "@/ui/commands.ts";
import { LiveDot } from "./live_dot.tsx";
import { useAccountName } from "./menu_items.tsx";
import { SearchButton } from "./navigation.tsx";
import { placeOf, rememberPlace } from "./places.ts";
import styles from "./shell.module.css";
import { useShell } from "./use_shell.ts";

export interface Crumb {
  label: string;
  to?: "/$account" | "/$account/clusters" | "/$account/errors";
}

interface PageProps {
  /** The last crumb and the title of the window. */
  title: string;
  crumbs?: readonly Crumb[];
  /** Controls beside the search field, such as the range of time. */
  tools?: ReactNode;
  children: ReactNode;
}

/** A page in the shell: the bar at the top with its crumbs, and the content. */
export function Page({ title, crumbs = [], tools, children }: PageProps) {
  const account = useAccount();
  const shell = useShell();
  const name = useAccountName(shell.data?.data.viewer ?? null);
  useWayBack(crumbs.at(-1)?.to);
  useEffect(() => {
    document.title = `${title} · Galvo`;
  }, [title]);
  return (
    <>
      <header className="top">
        <nav className={styles.crumbs} aria-label="Breadcrumbs">
          <Link to="/$account" params={{ account }} activeOptions={{ exact: true }}>
            {name}
          </Link>
          <span>/</span>
          {crumbs.map(({ label, to }) => (
            <span key={label} className={styles.crumbs}>
              {to ? (
                <Link
                  to={to}
                  params={{ account }}
                  search={placeOf(pathOf(to, account))}
                  activeOptions={{ exact: true }}
                >
                  {label}
                </Link>
              ) : (
                label
              )}
              <span>/</span>
            </span>
          ))}
          <span aria-current="page" className="truncated">
            {title}
          </span>
        </nav>
        <span className="grow" />
        <LiveDot />
        <SearchButton />
        {tools}
      </header>
      <main className="main" id="content" tabIndex={-1}>
        {children}
      </main>
    </>
  );
}

const pathOf = (to: string, account: string) => to.replace("$account", account);

/** Remembers how a list was left. From a page below it, Escape leads back to it as it was. */
function useWayBack(to: Crumb["to"]): void {
  const account = useAccount();
  const navigate = useNavigate();
  const { pathname, search } = useLocation();
  useEffect(() => {
    if (to === undefined) rememberPlace(pathname, search);
  }, [to, pathname, search]);
  const back = (list: NonNullable<Crumb["to"]>) =>
    void navigate({ to: list, params: { account }, search: placeOf(pathOf(list, account)) });
  useCommands(
    to === undefined
      ? []
      : [
          {
            id: "back",
            label: "Back to the list",
            keys: "Escape",
            group: "Page",
            isFallback: true,
            run: () => back(to),
          },
        ],
  );
}
