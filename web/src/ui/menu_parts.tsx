import { Menu as Base } from "@base-ui/react/menu";
import { useEffect, useRef } from "react";
import { Icon } from "./icon.tsx";
import styles from "./menu.module.css";
import type { MenuGroupProps, MenuItemProps, MenuLinkProps, MenuProps } from "./menu.tsx";
import type { Opening } from "./popups.ts";

interface OpenedMenuProps extends MenuProps {
  opening: Opening;
}

/** A menu that was opened at least once. */
export function OpenedMenu({ trigger, children, side = "bottom", opening }: OpenedMenuProps) {
  const popup = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (opening === "pointer") return;
    // As if the library had seen the key: the first item, or the last one, has the focus.
    const frame = requestAnimationFrame(() =>
      popup.current?.dispatchEvent(new KeyboardEvent("keydown", { key: opening, bubbles: true })),
    );
    return () => cancelAnimationFrame(frame);
  }, [opening]);
  return (
    <Base.Root modal={false} defaultOpen>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner className={styles.positioner} side={side} align="start" sideOffset={4}>
          <Base.Popup ref={popup} className={styles.popup}>
            {children}
          </Base.Popup>
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
