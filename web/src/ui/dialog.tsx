import { Dialog as Base } from "@base-ui/react/dialog";
import type { ReactNode } from "react";
import styles from "./dialog.module.css";

interface DialogProps {
  title: string;
  isOpen: boolean;
  onClose(): void;
  /** Hides the title from sight, for a dialog whose first field names it. */
  hidesTitle?: boolean;
  isWide?: boolean;
  children: ReactNode;
  /** The buttons at the end. */
  foot?: ReactNode;
}

/** A dialog that traps the focus and returns it. */
export function Dialog({ title, isOpen, onClose, hidesTitle, isWide, children, foot }: DialogProps) {
  return (
    <Base.Root open={isOpen} onOpenChange={(open) => !open && onClose()}>
      <Base.Portal>
        <Base.Backdrop className={styles.backdrop} />
        <Base.Popup className={`${styles.popup} ${isWide ? styles.wide : ""}`}>
          <Base.Title className={hidesTitle ? "hidden" : styles.title}>{title}</Base.Title>
          {children}
          {foot && <div className={styles.foot}>{foot}</div>}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}
