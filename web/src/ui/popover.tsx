import { type ReactElement, type ReactNode, useEffect, useState } from "react";
import { closedTrigger, popoverParts } from "./popups.ts";

export interface PopoverProps {
  title: string;
  /** The button that opens it. */
  trigger: ReactElement;
  isOpen: boolean;
  onOpenChange(isOpen: boolean): void;
  children: ReactNode;
}

/** A small form at a button. Its code is loaded when the first one is opened. */
export function Popover(props: PopoverProps) {
  const { trigger, isOpen, onOpenChange } = props;
  const [isUsed, setUsed] = useState(false);
  useEffect(() => {
    if (!isOpen) return;
    popoverParts.load().then(
      () => setUsed(true),
      () => onOpenChange(false),
    );
  }, [isOpen, onOpenChange]);
  if (!isUsed) return closedTrigger(trigger, "dialog", () => onOpenChange(true));
  const { OpenedPopover } = popoverParts.get();
  return <OpenedPopover {...props} />;
}
