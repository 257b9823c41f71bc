import { useNavigate } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { useAccount } from "@/data/account.ts";
import { Failure } from "@/data/failure.ts";
import { NotFound } from "@/routes/not_found.tsx";
import { type Command, useCommands, useKeyboardMap } from "@/ui/commands.ts";
import { ErrorBoundary } from "@/ui/error_boundary.tsx";
import { MobileNavigation, Navigation } from "./navigation.tsx";
import { OfflineBar } from "./offline_bar.tsx";
import { PAGES } from "./pages.ts";
import styles from "./shell.module.css";
import { ShellActions } from "./shell_actions.ts";
import { useShell } from "./use_shell.ts";

const Palette = lazy(() => import("./palette.tsx"));
const KeyHelp = lazy(() => import("./key_help.tsx"));

/** The frame around the pages of an account. */
export function Shell({ children }: { children: ReactNode }) {
  const account = useAccount();
  const [open, setOpen] = useState<"palette" | "keys" | null>(null);
  const close = () => setOpen(null);
  const shell = useShell();
  useKeyboardMap(() => setOpen("palette"));
  usePageCommands(account, setOpen);

  if (shell.error instanceof Failure && isForeign(shell.error)) return <NotFound />;
  const viewer = shell.data?.data.viewer ?? null;
  return (
    <ShellActions value={{ openPalette: () => setOpen("palette"), openKeys: () => setOpen("keys") }}>
      <a className={styles.skip} href="#content">
        Skip to content
      </a>
      <div className="frame">
        <Navigation viewer={viewer} />
        <div>
          <OfflineBar />
          <ErrorBoundary name="This page">{children}</ErrorBoundary>
        </div>
        <MobileNavigation viewer={viewer} />
      </div>
      <Suspense>
        {open === "palette" && <Palette onClose={close} viewer={viewer} />}
        {open === "keys" && <KeyHelp onClose={close} />}
      </Suspense>
    </ShellActions>
  );
}

function isForeign(failure: Failure): boolean {
  return failure.kind === "not-found" || failure.kind === "forbidden";
}

function usePageCommands(account: string, setOpen: (open: "palette" | "keys") => void): void {
  const navigate = useNavigate();
  const pages = PAGES.map(
    ({ to, label, key }): Command => ({
      id: `go-${key}`,
      label,
      keys: `g ${key}`,
      group: "Go to",
      run: () => void navigate({ to, params: { account } }),
    }),
  );
  useCommands([
    ...pages,
    {
      id: "search",
      label: "Search and jump",
      keys: "/",
      group: "General",
      isKeyOnly: true,
      run: () => setOpen("palette"),
    },
    { id: "keys", label: "All keys", keys: "?", group: "General", run: () => setOpen("keys") },
  ]);
}
