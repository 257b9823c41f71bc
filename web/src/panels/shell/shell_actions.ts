import { createContext } from "react";

/** Opens the dialogs of the shell. */
export const ShellActions = createContext<{ openPalette(): void; openKeys(): void }>({
  openPalette: () => {},
  openKeys: () => {},
});
