/** The ways of connecting a cluster, as they are documented. */
export const WAYS = ["notebook", "scheduler", "coiled"] as const;
export type Way = (typeof WAYS)[number];

export const WAY_NAMES: Record<Way, string> = {
  notebook: "From a notebook",
  scheduler: "With the scheduler",
  coiled: "From coiled",
};

export const NO_TOKEN = "<token>";

/** Returns the commands. The server is the address of its root, without a slash at its end. */
export function commands(way: Way, server: string, token: string | null): string {
  const secret = token ?? NO_TOKEN;
  switch (way) {
    case "notebook":
      return [
        "# in a shell, once, in a copy of Galvo's repository",
        "pip install ./python",
        "",
        "# in Python, where your Client is",
        "import galvo",
        `galvo.register(server="${server}", token="${secret}")`,
      ].join("\n");
    case "scheduler":
      return [
        `export DASK_GALVO__SERVER=${server}`,
        `export DASK_GALVO__TOKEN='${secret}'`,
        `dask scheduler --preload ${server}/api/v2/analytics/preload`,
      ].join("\n");
    case "coiled":
      return [
        "# in a shell, once",
        `coiled login --server ${server} --token '${secret}'`,
        "",
        "# in Python, where your Client is",
        "import coiled.analytics",
        "coiled.analytics.register()",
      ].join("\n");
  }
}

export const WAY_NOTES: Record<Way, string> = {
  notebook:
    "Nothing has to be installed on the scheduler or the workers. galvo.register(dry_run=True) prints the first report and sends nothing.",
  scheduler:
    "Only Dask is needed. The scheduler waits for this server as it starts; the file that the command galvo preload writes does not.",
  coiled: "The package coiled works unchanged. Its register() sends the token to the scheduler.",
};

/** Returns the server's address for the settings of clusters. */
export function serverAddress(origin: string, base: string): string {
  return `${origin}${base}`.replace(/\/+$/, "");
}
