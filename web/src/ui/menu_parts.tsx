import { Menu as Base } from "@base-ui/react/menu";
import { Icon } from "./icon.tsx";
import styles from "./menu.module.css";
import type { MenuGroupProps, MenuItemProps, MenuLinkProps, MenuProps } from "./menu.tsx";

/** A menu that was opened at least once. */
export function OpenedMenu({ trigger, children, side = "bottom" }: MenuProps) {
  return (
    <Base.Root modal={false} defaultOpen>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner className={styles.positioner} side={side} align="start" sideOffset={4}>
          <Base.Popup className={styles.popup}>{children}</Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}

export function Item({ icon, isChosen, isDisabled = false, onSelect, children }: MenuItemProps) {
  return (
    <Base.Item className={styles.item} onClick={onSelect} disabled={isDisabled}>
      {icon && <Icon name={icon} />}
      <span className="grow">{children}</span>
      <span className={styles.check}>{isChosen && <Icon name="check" />}</span>
    </Base.Item>
  );
}

export function LinkItem({ icon, to, children }: MenuLinkProps) {
  return (
    <Base.LinkItem className={styles.item} href={to}>
      {icon && <Icon name={icon} />}
      <span className="grow">{children}</span>
    </Base.LinkItem>
  );
}

export function Group({ label, children }: MenuGroupProps) {
  return (
    <Base.Group>
      <Base.GroupLabel className={styles.label}>{label}</Base.GroupLabel>
      {children}
    </Base.Group>
  );
}
