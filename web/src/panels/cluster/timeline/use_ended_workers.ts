import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useAccount } from "@/data/account.ts";
import { type Answered, ask } from "@/data/ask.ts";
import { ClusterEndedWorkersDocument } from "@/data/gql/graphql.ts";
import { type Asked, askKey } from "@/data/queries.ts";
import { type EndedWorkers, loadEndedWorkers, NONE_ENDED } from "./ended_workers.ts";

interface UseEndedWorkers {
  query: Asked<EndedWorkers>;
  ended: EndedWorkers;
}

/** Asks for the workers that have left, and after a report only for those that have left since. */
export function useEndedWorkers(id: string): UseEndedWorkers {
  const account = useAccount();
  const client = useQueryClient();
  const queryKey = askKey(account, ClusterEndedWorkersDocument, { id });
  const query = useQuery<Answered<EndedWorkers>>({
    queryKey,
    queryFn: ({ signal }) =>
      loadEndedWorkers(client.getQueryData<Answered<EndedWorkers>>(queryKey)?.data, (before) =>
        ask(ClusterEndedWorkersDocument, { id, before }, { account, signal }),
      ),
  });
  return { query, ended: query.data?.data ?? NONE_ENDED };
}
