/** A cell of a table that leaves the page. Null is unknown and stays empty. */
export type Cell = string | number | null;

export interface Sheet {
  head: readonly string[];
  rows: readonly (readonly Cell[])[];
}

function field(cell: Cell): string {
  if (cell === null) return "";
  if (typeof cell === "number") return String(cell);
  // A spreadsheet takes a text that begins like this for a formula.
  const text = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Returns the table as CSV by RFC 4180. */
export function csv({ head, rows }: Sheet): string {
  return [head, ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

/** Returns the document with its variables, for a GraphQL client. */
export function graphqlText(document: string, variables: unknown, account: string): string {
  return `# Account: ${account}\n${document}\n\n# Variables:\n${JSON.stringify(variables, null, 2)}\n`;
}

/** Returns a program that sends the document with the package `galvo`. */
export function pythonText(document: string, variables: unknown, account: string): string {
  const variablesText = JSON.stringify(JSON.stringify(variables));
  return [
    "import json",
    "",
    "import galvo",
    "",
    `variables = json.loads(${variablesText})`,
    `answer = galvo.graphql("""${document}""", variables, account=${JSON.stringify(account)})`,
    "",
  ].join("\n");
}
