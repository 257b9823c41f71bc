import { useRouter } from "@tanstack/react-router";
import type { ComponentProps, MouseEvent } from "react";
import { serverPath } from "@/data/base.ts";

interface ClusterLinkProps extends Omit<ComponentProps<"a">, "href" | "onClick"> {
  account: string;
  number: number;
}

/**
 * A link to a cluster for a row of the list. A link of the router follows each change of the address, which many rows
 * at a time would feel.
 */
export function ClusterLink({ account, number, children, ...rest }: ClusterLinkProps) {
  const router = useRouter();
  const place = {
    to: "/$account/clusters/$number",
    params: { account, number: String(number) },
  } as const;
  const open = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    void router.navigate(place);
  };
  return (
    <a
      {...rest}
      href={serverPath(`${account}/clusters/${number}`)}
      onClick={open}
      onPointerEnter={() => void router.preloadRoute(place)}
    >
      {children}
    </a>
  );
}
