// The pages of the dashboard, for an account with the clusters of seed.py.
import { askServer } from "./browser.js";

/** The tabs of a cluster, in their order. */
export const TABS = [
  "time",
  "functions",
  "workers",
  "errors",
  "logs",
  "profile",
  "code",
  "environment",
  "cost",
  "privacy",
];

/** Returns the paths of all pages: with data, without, and of addresses that lead nowhere. */
export async function pathsOfPages(page, account) {
  const { viewer } = await askServer(
    page,
    account,
    `{ viewer { account {
      bad: clusters(first: 1, filter: { hasErrors: true, search: "features-daily" }) { nodes { number } }
      good: clusters(first: 1, filter: { hasErrors: false, search: "features-daily" }) { nodes { number } }
      live: clusters(first: 1, filter: { search: "notebook" }) { nodes { number } }
      errorGroups(first: 1) { nodes { id } }
    } } }`,
  );
  const { bad, good, live, errorGroups } = viewer.account;
  const number = ({ nodes }) => nodes[0].number;
  return [
    "",
    "?by=errors",
    "/clusters",
    "/clusters?q=no-such-cluster",
    ...TABS.map((tab) => `/clusters/${number(bad)}/${tab}`),
    `/clusters/${number(live)}`,
    `/clusters/${number(live)}/logs`,
    "/clusters/999999",
    `/compare?a=${number(good)}&b=${number(bad)}`,
    "/compare",
    "/errors",
    `/errors/${encodeURIComponent(errorGroups.nodes[0].id)}`,
    "/errors?type=NoSuchError",
    "/no-such-page",
  ].map((path) => `/${account}${path}`);
}
