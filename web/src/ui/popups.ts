import { cloneElement, type ReactElement, type SyntheticEvent } from "react";

interface Parts<Module> {
  /** Loads the module. A failed attempt is repeated by the next call. */
  load(): Promise<void>;
  /** Returns the module, for components that are rendered only after it was loaded. */
  get(): Module;
}

function lazyParts<Module>(importParts: () => Promise<Module>): Parts<Module> {
  let loading: Promise<Module> | null = null;
  let loaded: Module | null = null;
  return {
    async load() {
      try {
        loading ??= importParts();
        loaded = await loading;
      } catch (error) {
        loading = null;
        throw error;
      }
    },
    get() {
      if (!loaded) throw new Error("a popup is open before its code was loaded");
      return loaded;
    },
  };
}

// The library of popups is a quarter of all code that the first view would otherwise run, and nothing of it is seen
// before one is opened.
export const menuParts = lazyParts(() => import("./menu_parts.tsx"));
export const popoverParts = lazyParts(() => import("./popover_parts.tsx"));

type TriggerProps = Partial<Record<"onClick" | "onKeyDown" | "onPointerEnter", (event: never) => void>>;

/** Returns the trigger of a popup that was not opened yet, with the semantics that it has later. */
export function closedTrigger(
  trigger: ReactElement,
  kind: "menu" | "dialog",
  onOpen: () => void,
): ReactElement {
  const parts = kind === "menu" ? menuParts : popoverParts;
  const own = trigger.props as TriggerProps;
  const openAfter = (handler: TriggerProps["onClick"]) => (event: SyntheticEvent) => {
    handler?.(event as never);
    onOpen();
  };
  const isArrow = (event: SyntheticEvent<Element, KeyboardEvent>) =>
    ["ArrowDown", "ArrowUp"].includes(event.nativeEvent.key);
  return cloneElement(trigger as ReactElement<Record<string, unknown>>, {
    "aria-haspopup": kind,
    "aria-expanded": false,
    onClick: openAfter(own.onClick),
    onPointerEnter: (event: SyntheticEvent) => {
      own.onPointerEnter?.(event as never);
      parts.load().catch(() => undefined);
    },
    onKeyDown: (event: SyntheticEvent<Element, KeyboardEvent>) => {
      own.onKeyDown?.(event as never);
      if (kind === "menu" && isArrow(event)) {
        event.preventDefault();
        onOpen();
      }
    },
  });
}
