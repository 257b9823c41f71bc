import { Button, type ButtonLook, type ButtonSize } from "./button.tsx";
import { useCopy } from "./use_copy.ts";

interface CopyButtonProps {
  /** The text, or the function that returns it when the button is pressed. */
  text: string | (() => string);
  label?: string;
  look?: ButtonLook;
  size?: ButtonSize;
  /** The label is for screen readers only. */
  isIcon?: boolean;
}

/** A button that copies a text, and says so. */
export function CopyButton({
  text,
  label = "Copy",
  look = "normal",
  size = "small",
  isIcon,
}: CopyButtonProps) {
  const copying = useCopy();
  const { icon, words } = copying.look(label);
  const copy = () => copying.copy(typeof text === "string" ? text : text());
  return (
    <Button look={look} size={size} icon={icon} onClick={() => void copy()}>
      <span aria-live="polite" className={isIcon && words === label ? "hidden" : undefined}>
        {words}
      </span>
    </Button>
  );
}
