import { type ReactNode, useEffect, useId, useState } from "react";
import { Failure, type FieldError } from "@/data/failure.ts";
import type { Asked } from "@/data/queries.ts";
import { Button } from "./button.tsx";
import { ErrorBoundary } from "./error_boundary.tsx";
import styles from "./panel.module.css";
import { VerdictMark } from "./verdict.tsx";

interface SectionProps {
  /** The finding, as a sentence. */
  title: ReactNode;
  sub?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  level?: 2 | 3;
}

/** A part of a page with its heading. */
export function Section({ title, sub, actions, children, level = 2 }: SectionProps) {
  const id = useId();
  const Heading = level === 2 ? "h2" : "h3";
  return (
    <section className={styles.section} aria-labelledby={id}>
      <div className={styles.head}>
        <Heading className={level === 2 ? "h2" : "h3"} id={id}>
          {title}
        </Heading>
        {sub && <span className={`${styles.sub} small`}>{sub}</span>}
        <span className="grow" />
        {actions}
      </div>
      {children}
    </section>
  );
}

interface LoadedProps<Result> {
  /** The subject with its article, for the message of a failure: `The logs`. */
  name: string;
  query: Asked<Result>;
  /** Shown after 150 ms, in the geometry of the content. */
  skeleton?: ReactNode;
  children(data: Result, errors: readonly FieldError[]): ReactNode;
}

/** A panel's content with its states: loading, failed, partly failed, old while new data are on the way. */
export function Loaded<Result>({ name, query, skeleton, children }: LoadedProps<Result>) {
  const { data, error, isPending, isPlaceholderData, refetch } = query;
  if (!data) {
    if (error) return <Failed name={name} error={error} onRetry={() => void refetch()} />;
    if (isPending) return <Delayed>{skeleton ?? <Skeleton />}</Delayed>;
    return null;
  }
  return (
    <div className={isPlaceholderData ? styles.dimmed : undefined} aria-busy={isPlaceholderData}>
      {error && (
        <Partial text={`${name} are of an earlier time: ${reason(error)}`} onRetry={() => void refetch()} />
      )}
      {data.errors.length > 0 && (
        <Partial text={partialText(name, data.errors)} onRetry={() => void refetch()} />
      )}
      <ErrorBoundary name={name} subject={data}>
        <Content>{() => children(data.data, data.errors)}</Content>
      </ErrorBoundary>
    </div>
  );
}

/** The state of a query whose data are drawn elsewhere: that it failed, or did not answer completely. */
export function QueryState<Result>({ name, query }: Pick<LoadedProps<Result>, "name" | "query">) {
  return (
    <Loaded name={name} query={query} skeleton="">
      {() => null}
    </Loaded>
  );
}

/** Calls the function below the boundary, so that its own errors are caught there, too. */
function Content({ children }: { children(): ReactNode }) {
  return children();
}

function partialText(name: string, errors: readonly FieldError[]): string {
  const [first] = errors;
  const message = first?.message.replace(/\.$/, "") ?? "";
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : "";
  return `${name} did not load completely: ${message}${more}.${requestText(first?.requestId ?? null)}`;
}

function Partial({ text, onRetry }: { text: string; onRetry(): void }) {
  return (
    <div className={styles.partial} role="status">
      <VerdictMark verdict="NOTICE" />
      <span>{text}</span>
      <Button size="small" onClick={onRetry}>
        Retry
      </Button>
    </div>
  );
}

/** Shows its content after 150 ms, so that fast answers do not flicker. */
function Delayed({ children }: { children: ReactNode }) {
  const [isShown, show] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => show(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div aria-busy="true" style={isShown ? undefined : { visibility: "hidden" }}>
      <span className="hidden">Loading</span>
      {children}
    </div>
  );
}

const BONE_WIDTHS = [62, 88, 44, 70, 56];

/** Grey bars in the geometry of rows. */
export function Skeleton({ rows = 4, columns = 4 }: { rows?: number; columns?: number }) {
  return (
    <div className={styles.skeleton} aria-hidden="true">
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows have no identity
        <div className={styles.bones} key={row}>
          {Array.from({ length: columns }, (_, column) => (
            <div
              className={styles.bone}
              // biome-ignore lint/suspicious/noArrayIndexKey: the columns have no identity
              key={column}
              style={{ width: `${BONE_WIDTHS[(row * 2 + column) % BONE_WIDTHS.length]}px` }}
            />
          ))}
        </div>
      ))}
    </div>
  );
}

/** Returns the identifier with which the request is found in the server's log. */
function requestText(id: string | null): string {
  return id === null ? "" : ` Request ${id}.`;
}

/** Returns what kept the data away, and what to do, in words. */
export function reason(error: Error): string {
  if (!(error instanceof Failure)) return error.message;
  const request = requestText(error.requestId);
  switch (error.kind) {
    case "offline":
      return "The server cannot be reached.";
    case "timeout":
      return `It took longer than the server allows. Narrow the range.${request}`;
    case "rate-limited":
      return `Too many requests in this minute. Try again in ${error.retryAfterSeconds ?? 60} s.${request}`;
    case "unavailable":
      return `The server is busy or restarts. ${error.message}${request}`;
    case "signed-out":
      return "You are signed out. The sign-in page opens.";
    default:
      return `${error.message}${request}`;
  }
}

function Failed({ name, error, onRetry }: { name: string; error: Error; onRetry(): void }) {
  if (error instanceof Failure && error.kind === "forbidden") {
    return <NoPermission text={error.message} />;
  }
  return (
    <div className={styles.note} role="alert">
      <VerdictMark verdict="NOTICE" />
      <div>
        <strong className="h3">{name} did not load</strong>
        <p>{reason(error)} The rest of the page is complete.</p>
        <div className={styles.actions}>
          <Button size="small" onClick={onRetry}>
            Retry
          </Button>
        </div>
      </div>
    </div>
  );
}

interface MessageProps {
  title: string;
  children?: ReactNode;
}

/** Data that a policy or a setting keeps away. The text names the setting. */
export function Withheld({ title, children }: MessageProps) {
  return <Message verdict="UNKNOWN" title={title} text={children} />;
}

/** A place without data, as a sentence that is true: `No task failed`. */
export function Empty({ title, children }: MessageProps) {
  return <Message verdict="FACT" title={title} text={children} />;
}

/** A refusal that says which role may. */
export function NoPermission({ text }: { text: string }) {
  return <Message verdict="UNKNOWN" title="Not permitted" text={text} />;
}

function Message({ verdict, title, text }: { verdict: "UNKNOWN" | "FACT"; title: string; text: ReactNode }) {
  return (
    <div className={styles.note}>
      <VerdictMark verdict={verdict} />
      <div>
        <strong className="h3">{title}</strong>
        {text && <p>{text}</p>}
      </div>
    </div>
  );
}
