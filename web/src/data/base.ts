/** The path below which the server is reached, with a slash at its end: the server's `<base href>`. */
export const basePath: string =
  typeof document === "undefined"
    ? "/"
    : (document.querySelector("base")?.getAttribute("href") ?? "/").replace(/\/?$/, "/");

/** Returns the address of one of the server's paths, such as `api/v1/session`. */
export function serverPath(path: string): string {
  return basePath + path.replace(/^\//, "");
}
