import {
  QueryClient,
  type UseInfiniteQueryResult,
  type UseQueryResult,
  useInfiniteQuery,
  useQuery,
} from "@tanstack/react-query";
import { useContext } from "react";
import { AccountContext } from "./account.ts";
import { type Answered, ask, type Document, documentId } from "./ask.ts";
import { Failure } from "./failure.ts";

/** A panel's query: its answer has the data and the errors of the fields that failed. */
export type Asked<Result> = UseQueryResult<Answered<Result>, Error>;

export function createQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 15_000,
        gcTime: 300_000,
        refetchOnWindowFocus: true,
        // Without a network a request fails, so that the page says so, instead of waiting without an end.
        networkMode: "always",
        refetchOnReconnect: true,
        retry: (count, error) => count < 2 && error instanceof Failure && isTransient(error),
      },
    },
  });
}

function isTransient(failure: Failure): boolean {
  return failure.kind === "unavailable" || failure.kind === "offline";
}

/** Returns the data of the last variables as a placeholder, but never those of another account. */
function keepWithin(account: string | null) {
  return <Data>(data: Data | undefined, query: { queryKey: readonly unknown[] } | undefined) =>
    query?.queryKey[0] === account ? data : undefined;
}

/** The key of an operation in the query cache: the account, the operation and its variables. */
export function askKey<R, V>(account: string | null, document: Document<R, V>, variables: V) {
  return [account, documentId(document), variables] as const;
}

interface UseAskOptions {
  enabled?: boolean;
  /** Keeps the data of the last variables in the account, dimmed, until the new data arrive. */
  keepsPrevious?: boolean;
  refetchSeconds?: number;
  staleSeconds?: number;
}

/** Asks the document in the account of the page. */
export function useAsk<Result, Variables>(
  document: Document<Result, Variables>,
  variables: Variables,
  options: UseAskOptions = {},
): Asked<Result> {
  const account = useContext(AccountContext);
  return useQuery({
    queryKey: askKey(account, document, variables),
    queryFn: ({ signal }) => ask(document, variables, { account, signal }),
    enabled: options.enabled ?? true,
    ...(options.keepsPrevious ? { placeholderData: keepWithin(account) } : {}),
    ...(options.refetchSeconds ? { refetchInterval: options.refetchSeconds * 1000 } : {}),
    ...(options.staleSeconds === undefined ? {} : { staleTime: options.staleSeconds * 1000 }),
  });
}

/** The pages of a connection, as the viewport asked for them. */
export type AskedPages<Result> = UseInfiniteQueryResult<{ pages: Answered<Result>[] }, Error>;

/** The key of a connection's pages in the query cache. */
export function pagesKey<R, V>(account: string | null, document: Document<R, V>, variables: unknown) {
  return [account, documentId(document), variables, "pages"] as const;
}

/**
 * Asks for a connection page by page. `next` returns the cursor behind a page, or null at the end. Loaded pages
 * are asked for again only when they are invalidated: a list of many pages would send a request for each.
 * A list that is read from its end takes the cursor as `before`.
 */
export function useAskPages<Result, Variables extends { after?: string | null | undefined }>(
  document: Document<Result, Variables>,
  variables: Omit<Variables, "after" | "before">,
  next: (data: Result) => string | null,
  argument: "after" | "before" = "after",
): AskedPages<Result> {
  const account = useContext(AccountContext);
  return useInfiniteQuery({
    queryKey: pagesKey(account, document, variables),
    queryFn: ({ pageParam, signal }) =>
      ask(document, { ...variables, [argument]: pageParam } as Variables, { account, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => next(page.data),
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: keepWithin(account),
  });
}
