import { Popover as Base } from "@base-ui/react/popover";
import styles from "./popover.module.css";
import type { PopoverProps } from "./popover.tsx";

/** A popover that was opened at least once. */
export function OpenedPopover({ title, trigger, isOpen, onOpenChange, children }: PopoverProps) {
  return (
    <Base.Root open={isOpen} onOpenChange={onOpenChange}>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner className={styles.positioner} side="bottom" align="start" sideOffset={4}>
          <Base.Popup className={styles.popup}>
            <Base.Title className={styles.title}>{title}</Base.Title>
            {children}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
