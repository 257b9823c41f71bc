// The server's data, from which the reference implementation answers: fetched once, complete, and with
// references resolved.
import { GraphQLError, execute, getNamedType, parse } from "graphql";

import { schemaWithScalars } from "./oracle.js";

const WHOLE = `
  { viewer { user { __typename id name } scopes account { __typename id slug name
    clusters(first: 5) { edges { cursor node { ...Whole } } } } } }
  fragment Whole on Cluster {
    __typename id number schedulerId name state desiredState startedAt endedAt lastSeenAt closeReason
    totals { tasks errors bytes computeSeconds transferSeconds } now { workers threads memoryUsed memoryLimit }
    user { id }
    computations(first: 10) { edges { cursor node { __typename id daskId state startedAt endedAt wallSeconds
      taskGroups(first: 10) { edges { cursor node { id } } } errors(first: 10) { edges { cursor node { id } } } } } }
    taskGroups(first: 10) { edges { cursor node { __typename id name prefix firstSeenAt tasks bytes types
      states { state count } durations { action seconds } dependencies { id } } } }
    errors(first: 10) { edges { cursor node { __typename id key type message traceback at origin retries worker
      computation { id } taskGroup { id } } } }
    events(first: 10) { edges { cursor node { __typename at topic data } } }
  }`;

const wrong = (code) => new GraphQLError(code, { extensions: { code } });

/** Returns the page of a list that the arguments select. */
function page(edges, { first, last, after, before }) {
  const sizes = [first, last].filter((size) => size != null);
  if (sizes.length > 1 || sizes.some((size) => size < 1 || size > 100)) throw wrong("BAD_USER_INPUT");
  const at = (cursor) => edges.findIndex((edge) => edge.cursor === cursor);
  if ([after, before].some((cursor) => cursor != null && at(cursor) < 0)) throw wrong("BAD_USER_INPUT");
  const begin = after == null ? 0 : at(after) + 1;
  const end = before == null ? edges.length : at(before);
  const from = last == null ? begin : Math.max(begin, end - last);
  const to = last == null ? Math.min(end, begin + (first ?? 20)) : end;
  const found = edges.slice(from, to);
  return {
    edges: found,
    nodes: found.map(({ node }) => node),
    totalCount: edges.length,
    pageInfo: {
      hasNextPage: to < edges.length,
      hasPreviousPage: from > 0,
      startCursor: found.at(0)?.cursor ?? null,
      endCursor: found.at(-1)?.cursor ?? null,
    },
  };
}

/** Fetches the server's data; returns the clusters, and a function that answers from the data. */
export async function world(server) {
  const { viewer } = await server.data(WHOLE);
  const { account } = viewer;
  const byId = new Map([account, viewer.user].map((node) => [node.id, node]));
  const clusters = account.clusters.edges.map(({ node }) => node);
  const lists = (cluster) => [cluster.computations, cluster.taskGroups, cluster.errors];
  for (const cluster of clusters) {
    byId.set(cluster.id, cluster);
    for (const { node } of lists(cluster).flatMap(({ edges }) => edges)) {
      byId.set(node.id, Object.assign(node, { cluster }));
    }
  }
  // Nodes that are fetched only by their id are replaced by the complete ones.
  const link = (holder, field) => {
    const value = holder[field];
    if (Array.isArray(value)) holder[field] = value.map(({ id }) => byId.get(id));
    else if (value) holder[field] = byId.get(value.id);
  };
  for (const cluster of clusters) {
    Object.assign(cluster, { account });
    link(cluster, "user");
    for (const { node } of cluster.taskGroups.edges) link(node, "dependencies");
    for (const { node } of cluster.errors.edges) ["computation", "taskGroup"].forEach((field) => link(node, field));
    for (const { node } of cluster.computations.edges) {
      for (const edge of [...node.taskGroups.edges, ...node.errors.edges]) link(edge, "node");
    }
  }
  const roots = {
    viewer: () => viewer,
    account: ({ slug }) => (slug === account.slug ? account : null),
    cluster: ({ id }) => clusters.find((cluster) => [cluster.id, String(cluster.number)].includes(id)) ?? null,
    node: ({ id }) => byId.get(id) ?? null,
    setDesiredState({ cluster: id, state }) {
      const cluster = byId.get(id);
      if (cluster?.__typename !== "Cluster") throw wrong("NOT_FOUND");
      cluster.desiredState = state;
      return { cluster };
    },
    deleteCostRate: () => ({ account, userErrors: [] }),
  };
  const fieldResolver = (source, given, _context, { fieldName, parentType, returnType }) => {
    if (source === roots) return roots[fieldName](given);
    const value = source[fieldName];
    // A sorted or filtered page would require the server's own rules.
    if (value === undefined) throw new Error(`${parentType}.${fieldName} was not fetched`);
    return getNamedType(returnType).name.endsWith("Connection") ? page(value.edges, given) : value;
  };
  const schema = schemaWithScalars();
  return {
    clusters,
    answer: ({ query, variables, operationName }) =>
      execute({
        schema,
        document: parse(query),
        rootValue: roots,
        variableValues: variables,
        operationName,
        fieldResolver,
      }),
  };
}
