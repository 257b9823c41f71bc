/** The list's query as text, for other programs. */

/** Returns a program that sends the query with the package `galvo`. */
export function pythonText(document: string, variables: unknown, account: string): string {
  const loads = `json.loads(r'''${JSON.stringify(variables).replaceAll("'''", "'\\u0027\\u0027")}''')`;
  return [
    "import json",
    "",
    "import galvo",
    "",
    `answer = galvo.graphql("""${document}""", ${loads}, account=${JSON.stringify(account)})`,
    'clusters = answer["viewer"]["account"]["clusters"]["nodes"]',
    "",
  ].join("\n");
}

/** Returns the address of the export with the same filter and order. */
export function exportAddress(format: "csv" | "arrow", filter: object, orderBy: object): string {
  const parameters = new URLSearchParams({
    format,
    filter: JSON.stringify(filter),
    orderBy: JSON.stringify(orderBy),
  });
  return `api/v1/export/clusters?${parameters}`;
}
