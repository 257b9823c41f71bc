import { Menu as Base } from "@base-ui/react/menu";
import type { ReactElement, ReactNode } from "react";
import { Icon, type IconName } from "./icon.tsx";
import styles from "./menu.module.css";

interface MenuProps {
  /** The button that opens the menu. */
  trigger: ReactElement;
  children: ReactNode;
  side?: "bottom" | "top";
}

export function Menu({ trigger, children, side = "bottom" }: MenuProps) {
  return (
    <Base.Root modal={false}>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner className={styles.positioner} side={side} align="start" sideOffset={4}>
          <Base.Popup className={styles.popup}>{children}</Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}

interface MenuItemProps {
  icon?: IconName;
  isChosen?: boolean;
  isDisabled?: boolean | undefined;
  onSelect(): void;
  children: ReactNode;
}

export function MenuItem({ icon, isChosen, isDisabled = false, onSelect, children }: MenuItemProps) {
  return (
    <Base.Item className={styles.item} onClick={onSelect} disabled={isDisabled}>
      {icon && <Icon name={icon} />}
      <span className="grow">{children}</span>
      <span className={styles.check}>{isChosen && <Icon name="check" />}</span>
    </Base.Item>
  );
}

interface MenuLinkProps {
  icon?: IconName;
  /** An address outside of the dashboard's own pages. */
  to: string;
  children: ReactNode;
}

export function MenuLink({ icon, to, children }: MenuLinkProps) {
  return (
    <Base.LinkItem className={styles.item} href={to}>
      {icon && <Icon name={icon} />}
      <span className="grow">{children}</span>
    </Base.LinkItem>
  );
}

/** Items of a menu below a name. */
export function MenuGroup({ label, children }: { label: string; children: ReactNode }) {
  return (
    <Base.Group>
      <Base.GroupLabel className={styles.label}>{label}</Base.GroupLabel>
      {children}
    </Base.Group>
  );
}
