import type { Cell, Sheet } from "./csv.ts";
import styles from "./sheet_table.module.css";

interface SheetTableProps {
  label: string;
  sheet: Sheet;
  format?(value: number): string;
}

/** The data of a chart as a table. */
export function SheetTable({ label, sheet, format = String }: SheetTableProps) {
  const text = (cell: Cell) => (cell === null ? "–" : typeof cell === "number" ? format(cell) : cell);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard
    <section className={styles.scroller} tabIndex={0} aria-label={label}>
      <table className={styles.table}>
        <thead>
          <tr>
            {sheet.head.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sheet.rows.map((row) => (
            <tr key={row.join("\n")}>
              {sheet.head.map((name, index) => {
                const cell = row[index] ?? null;
                return (
                  <td key={name} className={typeof cell === "string" ? undefined : styles.number}>
                    {text(cell)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
