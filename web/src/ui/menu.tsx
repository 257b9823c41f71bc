import { type ReactElement, type ReactNode, useState } from "react";
import type { IconName } from "./icon.tsx";
import { closedTrigger, menuParts, type Opening } from "./popups.ts";

export interface MenuProps {
  /** The button that opens the menu. */
  trigger: ReactElement;
  children: ReactNode;
  side?: "bottom" | "top";
}

/** A button with a menu. The code of menus is loaded when the first one is opened. */
export function Menu(props: MenuProps) {
  const [opening, setOpening] = useState<Opening | null>(null);
  if (opening) {
    const { OpenedMenu } = menuParts.get();
    return <OpenedMenu {...props} opening={opening} />;
  }
  return closedTrigger(props.trigger, "menu", (by) => {
    menuParts.load().then(
      () => setOpening(by),
      () => undefined,
    );
  });
}

export interface MenuItemProps {
  icon?: IconName;
  isChosen?: boolean;
  isDisabled?: boolean | undefined;
  onSelect(): void;
  children: ReactNode;
}

export function MenuItem(props: MenuItemProps) {
  const { Item } = menuParts.get();
  return <Item {...props} />;
}

export interface MenuLinkProps {
  icon?: IconName;
  /** An address outside of the dashboard's own pages. */
  to: string;
  children: ReactNode;
}

export function MenuLink(props: MenuLinkProps) {
  const { LinkItem } = menuParts.get();
  return <LinkItem {...props} />;
}

export interface MenuGroupProps {
  label: string;
  children: ReactNode;
}

/** Items of a menu below a name. */
export function MenuGroup(props: MenuGroupProps) {
  const { Group } = menuParts.get();
  return <Group {...props} />;
}
