// Benchmark results: printed, and kept as rows for the table of scripts/bench.sh.
import { appendFileSync } from "node:fs";

/** Adds one row to the table. `held` is null if there is no aim. */
export function result({ benchmark, figure, reference = "", ratio = null, aim = "", held = null }) {
  const said = [`${benchmark}: ${figure}`];
  if (reference) said.push(`reference ${reference}`);
  if (ratio !== null) said.push(`ratio ${ratio.toFixed(3)}`);
  if (aim) said.push(`aim ${aim}: ${held ? "held" : "MISSED"}`);
  console.log(said.join("; "));
  if (process.env.BENCH_ROWS) {
    const row = { benchmark, figure, reference, ratio, aim, held };
    appendFileSync(process.env.BENCH_ROWS, `${JSON.stringify(row)}\n`);
  }
}

/** Returns the value below which the share of the values is. */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  const position = (sorted.length - 1) * share;
  const low = sorted[Math.floor(position)];
  return low + (sorted[Math.ceil(position)] - low) * (position % 1);
}

export const median = (values) => quantile(values, 0.5);
export const longest = (values) => Math.max(...values);
