/** Returns the query of a new tab. `signIn` is the address of the sign-in page. */
export function exampleQuery(signIn: string): string {
  return `# The clusters of your account, newest first.
#
# Sign in at ${signIn}, or write an API token into "Headers"
# below, and press the refresh button at the lower left to
# load the schema.

query RecentClusters {
  viewer {
    user {
      name
    }
    account {
      slug
      clusters(first: 10) {
        totalCount
        nodes {
          number
          name
          state
          startedAt
          endedAt
          totals {
            tasks
            tasksErred
            errors
            computeSeconds
          }
        }
      }
    }
  }
}
`;
}

/** The headers of a new tab, to be completed with a token. */
export const EXAMPLE_HEADERS = `{
  "Authorization": "Bearer "
}
`;
