import type { ClusterCodeQuery, ClusterCodeTextQuery, RunState } from "@/data/gql/graphql.ts";
import { counted } from "@/format/number.ts";
import { shortFile } from "@/panels/errors/traceback.ts";
import { type Absence, absence, type Receipt } from "../receipts/receipts.ts";

export type CodeComputation = NonNullable<ClusterCodeQuery["cluster"]>["computations"]["nodes"][number];

interface Frame {
  file: string | null;
  line: number | null;
  relativeLine: number | null;
  snippet: { hash: string } | null;
}

interface Run {
  startedAt: string;
  endedAt: string | null;
  code: readonly (readonly Frame[])[];
}

/** A piece of code with the computations whose call stacks have it. */
export interface Snippet<Computation> {
  /** The hash of the text, or the place in the file if there is none. */
  id: string;
  hash: string | null;
  /** The file of the newest computation. Null if it is unknown. */
  file: string | null;
  /** The line that called, in the newest computation. Null if it is unknown. */
  line: number | null;
  /** The newest one first. */
  computations: Computation[];
}

/** Returns the place of a piece of code, by which pieces of one file differ. */
export function placeText({ file, line }: Pick<Snippet<unknown>, "file" | "line">): string {
  if (file === null) return "file unknown";
  return line === null ? shortFile(file) : `${shortFile(file)}:${line}`;
}

interface Period {
  from: string;
  to: string;
}

function frameId({ snippet, file, line }: Frame): string {
  return snippet?.hash ?? `${file ?? "unknown"}:${line ?? "unknown"}`;
}

/** Returns true if the computation ran in a part of the period. */
export function ranIn({ startedAt, endedAt }: Run, period: Period | null): boolean {
  if (!period) return true;
  const hasBegun = Date.parse(startedAt) < Date.parse(period.to);
  return hasBegun && (endedAt === null || Date.parse(endedAt) >= Date.parse(period.from));
}

/**
 * Returns the pieces of code of computations, which come with the newest one first. Those of the newest one are
 * first, the line that called Dask before its callers.
 */
export function snippetsOf<Computation extends Run>(
  computations: readonly Computation[],
  period: Period | null,
): Snippet<Computation>[] {
  const found = new Map<string, Snippet<Computation>>();
  for (const computation of computations) {
    if (!ranIn(computation, period)) continue;
    for (const frame of computation.code.flatMap((stack) => stack.toReversed())) {
      const id = frameId(frame);
      const known = found.get(id);
      if (!known) {
        const { file, line, snippet } = frame;
        found.set(id, { id, hash: snippet?.hash ?? null, file, line, computations: [computation] });
      } else if (known.computations.at(-1) !== computation) {
        known.computations.push(computation);
      }
    }
  }
  return [...found.values()];
}

/** Returns the lines of the file from which a computation called on, in ascending order. */
export function linesIn({ code }: Pick<Run, "code">, id: string): number[] {
  const lines = code.flat().flatMap((frame) => (frameId(frame) === id ? [frame.line] : []));
  return [...new Set(lines.filter((line) => line !== null))].toSorted((a, b) => a - b);
}

/** A line of a piece of code. */
export interface CodeLine {
  number: number;
  text: string;
  /** True if a call that led to Dask is on this line. */
  isCall: boolean;
}

type Node = ClusterCodeTextQuery["node"];

/**
 * Returns the lines of a piece of code with their numbers in the file, or in the piece if the file's are unknown.
 * Null if the text is not stored.
 */
export function codeLines(node: Node, hash: string): CodeLine[] | null {
  const code = node && "code" in node ? node.code : [];
  const frames = code.flat().filter(({ snippet }) => snippet?.hash === hash);
  const text = frames.find(({ snippet }) => snippet?.text != null)?.snippet?.text;
  if (text == null) return null;
  const calls = new Set(frames.map(({ relativeLine }) => relativeLine));
  const placed = frames.find(({ line, relativeLine }) => line !== null && relativeLine !== null);
  const start = placed ? (placed.line ?? 0) - (placed.relativeLine ?? 0) : 1;
  return text
    .replace(/\n$/, "")
    .split("\n")
    .map((row, index) => ({ number: start + index, text: row, isCall: calls.has(index) }));
}

export const RUN_STATES: Record<RunState, string> = {
  RUNNING: "running",
  FINISHED: "finished",
  ERRED: "failed",
  CANCELLED: "cancelled",
  LOST: "lost",
};

/** Returns the reason why computations have no code. */
export function withoutCode(receipt: Receipt | undefined, computations: number): Absence {
  const words = { one: "piece of code", many: "pieces of code", setting: "galvo.computation.code.transmit" };
  const reason = absence(receipt, words);
  if (reason.kind === "refused" || reason.kind === "withheld") return reason;
  // The receipt counts source lines of tracebacks as well, so that it tells nothing about call stacks.
  return {
    kind: "unknown",
    title: `No code was reported for ${counted(computations, "computation")}`,
    text:
      "Dask notes the code of a computation only if distributed.diagnostics.computations.nframes is above 0 in " +
      "the process that submits work.",
  };
}
