// The accessibility rules of axe.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Returns the broken rules, each with the first elements that break it. */
export async function violations(page) {
  // The debugger evaluates it, which the page's policy does not bind.
  await page.evaluate(axe);
  const { violations: found } = await page.evaluate(() => globalThis.axe.run());
  return found.map(({ id, nodes }) => {
    const elements = nodes.slice(0, 3).map(({ html, failureSummary }) => `${html} ${failureSummary}`);
    return `${id}: ${elements.join("\n")}`;
  });
}
