/** The search parts with which lists were left, by their address. */
const left = new Map<string, object>();

export function rememberPlace(pathname: string, search: object): void {
  left.set(pathname, search);
}

/** Returns the search part with which the list was left. Empty if it was not opened yet. */
export function placeOf(pathname: string): object {
  return left.get(pathname) ?? {};
}
