import { useEffect, useRef, useSyncExternalStore } from "react";

/** Something that a key, the palette or both can do. */
export interface Command {
  id: string;
  label: string;
  /** Keys one after another, such as `g c`. Absent for commands of the palette only. */
  keys?: string;
  /** The heading in the list of keys. */
  group: "Go to" | "Page" | "Table" | "Chart" | "General";
  /** Hidden from the palette, because it needs the place of the focus. */
  isKeyOnly?: boolean;
  /** Taken only if no other command has the same keys. */
  isFallback?: boolean;
  run(): void;
}

let commands: readonly Command[] = [];
const listeners = new Set<() => void>();

function change(next: readonly Command[]): void {
  commands = next;
  for (const listener of listeners) listener();
}

/** Registers commands while the component is shown. */
export function useCommands(own: readonly Command[]): void {
  const latest = useRef(own);
  latest.current = own;
  const key = own.map(({ id, label, keys }) => `${id} ${label} ${keys ?? ""}`).join("\n");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key stands for the commands
  useEffect(() => {
    const registered = latest.current.map((command, index) => ({
      ...command,
      run: () => latest.current[index]?.run(),
    }));
    change([...commands, ...registered]);
    return () => change(commands.filter((command) => !registered.includes(command)));
  }, [key]);
}

export function useAllCommands(): readonly Command[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => commands,
  );
}

const OFF_KEY = "galvo.keys";

export function areKeysOn(): boolean {
  return localStorage.getItem(OFF_KEY) !== "off";
}

export function setKeysOn(on: boolean): void {
  if (on) localStorage.removeItem(OFF_KEY);
  else localStorage.setItem(OFF_KEY, "off");
}

/**
 * Returns the name of a key in the keyboard map. Letters that the layout does not have, as on a Greek or
 * Cyrillic keyboard, are taken by their place.
 */
export function keyName(event: { key: string; code: string }): string {
  if (/^[a-z]$/i.test(event.key)) return event.key.toLowerCase();
  if (/^Key[A-Z]$/.test(event.code) && event.key.length === 1) return event.code.slice(3).toLowerCase();
  return event.key;
}

/** Returns the command of the keys pressed so far, and whether more keys may follow. */
export function matchKeys(
  all: readonly Command[],
  pressed: string,
): { command: Command | undefined; isPrefix: boolean } {
  // The command registered last belongs to the innermost part of the page.
  const command =
    all.findLast(({ keys, isFallback }) => keys === pressed && !isFallback) ??
    all.findLast(({ keys }) => keys === pressed);
  return { command, isPrefix: all.some(({ keys }) => keys?.startsWith(`${pressed} `)) };
}

const SEQUENCE_MS = 1200;

/** A menu or dialog above the page takes the keys itself. */
const COVERS = "[role=dialog], [role=menu]";

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  // These keep the focus after a click, and take no letters.
  if (target instanceof HTMLInputElement && /^(checkbox|radio)$/.test(target.type)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

/** Listens for the keys of all commands. Used once, by the shell. */
export function useKeyboardMap(onPalette: () => void): void {
  const palette = useRef(onPalette);
  palette.current = onPalette;
  useEffect(() => {
    let pressed = "";
    let timer: ReturnType<typeof setTimeout> | undefined;
    const onKeyDown = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && !event.altKey && keyName(event) === "k") {
        event.preventDefault();
        palette.current();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (isTyping(event.target) || !areKeysOn() || document.querySelector(COVERS)) return;
      pressed = pressed ? `${pressed} ${keyName(event)}` : keyName(event);
      let { command, isPrefix } = matchKeys(commands, pressed);
      if (!command && !isPrefix) {
        pressed = keyName(event);
        ({ command, isPrefix } = matchKeys(commands, pressed));
      }
      clearTimeout(timer);
      if (command) {
        event.preventDefault();
        pressed = "";
        command.run();
      } else if (isPrefix) {
        timer = setTimeout(() => {
          pressed = "";
        }, SEQUENCE_MS);
      } else {
        pressed = "";
      }
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
}
