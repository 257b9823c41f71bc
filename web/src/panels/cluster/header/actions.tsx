import { useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { useAccount } from "@/data/account.ts";
import { documentId, documentText } from "@/data/ask.ts";
import { ClusterHeaderDocument } from "@/data/gql/graphql.ts";
import { NOT_ADMIN, useIsAdmin } from "@/panels/clusters/change/permission.ts";
import { canStop } from "@/panels/clusters/rows.ts";
import { graphqlText, pythonText } from "@/panels/take_away/csv.ts";
import { Button, IconButton } from "@/ui/button.tsx";
import type { IconName } from "@/ui/icon.tsx";
import { useIsNarrow } from "@/ui/media.ts";
import { Menu, MenuItem } from "@/ui/menu.tsx";
import { isLive } from "@/ui/state.tsx";
import { useCopy } from "@/ui/use_copy.ts";
import type { HeaderCluster } from "./shown.ts";

const StopDialog = lazy(() => import("@/panels/clusters/change/stop_dialog.tsx"));
const TagDialog = lazy(() => import("@/panels/clusters/change/tag_dialog.tsx"));

interface Action {
  label: string;
  icon: IconName;
  /** The effect of the action, or the reason why it is not possible. */
  title?: string | undefined;
  isDisabled?: boolean;
  run(): unknown;
}

/** The actions for the cluster: buttons, or one menu where there is little room. */
export function Actions({ cluster }: { cluster: HeaderCluster }) {
  const account = useAccount();
  const client = useQueryClient();
  const isAdmin = useIsAdmin();
  const isNarrow = useIsNarrow();
  const { copy, look } = useCopy();
  // The outcome stands on the button, or on that of the menu.
  const copyAs = (label: string, text: string | Promise<string>) => copy(text, isNarrow ? undefined : label);
  const [open, setOpen] = useState<"stop" | "tag" | null>(null);
  const query = async (write: typeof graphqlText) =>
    write(await documentText(documentId(ClusterHeaderDocument)), { id: String(cluster.number) }, account);
  const canBeStopped = canStop(cluster);
  const actions: Action[] = [
    { label: "Copy link", icon: "link", run: () => copyAs("Copy link", location.href) },
    {
      label: "Copy query",
      icon: "copy",
      title: "The GraphQL query for the facts above",
      run: () => copyAs("Copy query", query(graphqlText)),
    },
    {
      label: "Notebook",
      icon: "export",
      title: "Copies Python that reads this cluster",
      run: () => copyAs("Notebook", query(notebookText)),
    },
    {
      label: "Tag…",
      icon: "tag",
      title: isAdmin ? undefined : NOT_ADMIN,
      isDisabled: !isAdmin,
      run: () => setOpen("tag"),
    },
  ];
  if (isLive(cluster.state)) {
    actions.push({
      label: "Stop…",
      icon: "stop",
      title: isAdmin ? (canBeStopped ? undefined : "The cluster is to stop already") : NOT_ADMIN,
      isDisabled: !isAdmin || !canBeStopped,
      run: () => setOpen("stop"),
    });
  }
  const menu = look("Actions", "more");
  const dialog = {
    rows: [cluster],
    onClose: () => setOpen(null),
    onDone: () => void client.invalidateQueries({ queryKey: [account, documentId(ClusterHeaderDocument)] }),
  };
  return (
    <>
      {isNarrow ? (
        <Menu trigger={<IconButton icon={menu.icon} label={menu.words} />}>
          {actions.map(({ label, icon, title, isDisabled, run }) => (
            <MenuItem key={label} icon={icon} isDisabled={isDisabled} onSelect={() => void run()}>
              {label}
              {isDisabled && <span className="faint small"> {title}</span>}
            </MenuItem>
          ))}
        </Menu>
      ) : (
        actions.map(({ label, icon, title, isDisabled, run }) => (
          <Button
            key={label}
            icon={look(label, icon).icon}
            title={title}
            disabled={isDisabled}
            onClick={() => void run()}
          >
            {look(label).words}
          </Button>
        ))
      )}
      <Suspense>
        {open === "tag" && <TagDialog {...dialog} />}
        {open === "stop" && <StopDialog {...dialog} />}
      </Suspense>
    </>
  );
}

function notebookText(...given: Parameters<typeof pythonText>): string {
  return `${pythonText(...given)}cluster = answer["cluster"]\n`;
}
