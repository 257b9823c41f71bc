import type { ComponentProps } from "react";
import styles from "./button.module.css";
import { Icon, type IconName } from "./icon.tsx";

export type ButtonLook = "normal" | "primary" | "ghost" | "danger";
export type ButtonSize = "normal" | "small";

/** The classes of a button, for links and triggers that look like one. */
export function buttonClass(look: ButtonLook = "normal", isSmall = false): string {
  return [styles.button, look === "normal" ? "" : styles[look], isSmall ? styles.small : ""]
    .filter(Boolean)
    .join(" ");
}

interface ButtonProps extends Omit<ComponentProps<"button">, "className"> {
  look?: ButtonLook;
  size?: ButtonSize;
  icon?: IconName;
  /** The reason why the button does nothing now. It keeps the focus, so that the keyboard reaches the reason, too. */
  refusal?: string | null;
}

export function Button({ look = "normal", size = "normal", icon, refusal, children, ...rest }: ButtonProps) {
  const refused = refusal ? { "aria-disabled": true, title: refusal, onClick: undefined } : {};
  return (
    <button type="button" className={buttonClass(look, size === "small")} {...rest} {...refused}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

interface IconButtonProps extends Omit<ComponentProps<"button">, "className" | "children"> {
  icon: IconName;
  label: string;
}

/** A button without a word. Its label is its name and its tooltip. */
export function IconButton({ icon, label, ...rest }: IconButtonProps) {
  return (
    <button
      type="button"
      className={`${buttonClass("ghost")} ${styles.icon}`}
      aria-label={label}
      title={label}
      {...rest}
    >
      <Icon name={icon} />
    </button>
  );
}
