// The accessibility rules of axe.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Elements that break a rule for a reason, by the rule. */
const EXCEPTIONS = {
  // Base UI's guards beside an open menu or dialog hand the focus on at once. Nobody stays on one of them.
  "aria-hidden-focus": "[data-base-ui-focus-guard]",
  // An open menu is beside the page, so that no part of the page cuts it off. Its button is in a landmark.
  region: "[role=menu]",
};

/** Returns the broken rules, each with the first elements that break it. */
export async function violations(page) {
  // The debugger evaluates it, which the page's policy does not bind.
  await page.evaluate(axe);
  const found = await page.evaluate(async (exceptions) => {
    const { violations: broken } = await globalThis.axe.run();
    for (const rule of broken) {
      const isExcepted = ({ target }) => document.querySelector(target[0])?.matches(exceptions[rule.id]);
      if (exceptions[rule.id]) rule.nodes = rule.nodes.filter((node) => !isExcepted(node));
    }
    return broken.filter(({ nodes }) => nodes.length > 0);
  }, EXCEPTIONS);
  return found.map(({ id, nodes }) => {
    const elements = nodes.slice(0, 3).map(({ html, failureSummary }) => `${html} ${failureSummary}`);
    return `${id}: ${elements.join("\n")}`;
  });
}
