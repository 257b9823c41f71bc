import {
  cloneElement,
  type KeyboardEvent,
  type MouseEvent,
  type PointerEvent,
  type ReactElement,
} from "react";

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

/** The way in which a popup was opened the first time. A key moves the focus to the first or the last item. */
export type Opening = "pointer" | "ArrowDown" | "ArrowUp";

type TriggerProps = Partial<Record<"onClick" | "onKeyDown" | "onPointerEnter", (event: never) => void>>;

/** Returns the trigger of a popup that was not opened yet, with the semantics that it has later. */
export function closedTrigger(
  trigger: ReactElement,
  kind: "menu" | "dialog",
  onOpen: (by: Opening) => void,
): ReactElement {
  const parts = kind === "menu" ? menuParts : popoverParts;
  const own = trigger.props as TriggerProps;
  return cloneElement(trigger as ReactElement<Record<string, unknown>>, {
    "aria-haspopup": kind,
    "aria-expanded": false,
    onClick: (event: MouseEvent) => {
      own.onClick?.(event as never);
      // A click by the keyboard has no count.
      onOpen(event.detail === 0 ? "ArrowDown" : "pointer");
    },
    onPointerEnter: (event: PointerEvent) => {
      own.onPointerEnter?.(event as never);
      parts.load().catch(() => undefined);
    },
    onKeyDown: (event: KeyboardEvent) => {
      own.onKeyDown?.(event as never);
      if (kind === "menu" && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
        event.preventDefault();
        onOpen(event.key);
      }
    },
  });
}
