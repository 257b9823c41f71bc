import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect } from "react";
import { useAccount } from "@/data/account.ts";
import { LiveDot } from "./live_dot.tsx";
import { SearchButton } from "./navigation.tsx";
import styles from "./shell.module.css";

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
  useEffect(() => {
    document.title = `${title} · Galvo`;
  }, [title]);
  return (
    <>
      <header className="top">
        <nav className={styles.crumbs} aria-label="Breadcrumbs">
          <Link to="/$account" params={{ account }} activeOptions={{ exact: true }}>
            {account}
          </Link>
          <span>/</span>
          {crumbs.map(({ label, to }) => (
            <span key={label} className={styles.crumbs}>
              {to ? (
                <Link to={to} params={{ account }} activeOptions={{ exact: true }}>
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
