import type { AnswerFieldsFragment } from "@/data/gql/graphql.ts";
import { bytes } from "@/format/bytes.ts";
import { duration, threadTime } from "@/format/duration.ts";
import { money } from "@/format/money.ts";
import { counted, share, threeDigits } from "@/format/number.ts";
import type { TabName } from "@/routes/cluster/tabs.ts";
import type { VerdictKind } from "@/ui/verdict.tsx";

export type Answer = AnswerFieldsFragment;

/** An answer as it is shown: a short sentence, what qualifies it, and where more stands. */
export interface ShownAnswer {
  id: string;
  question: string;
  verdict: VerdictKind;
  head: string;
  isEstimated: boolean;
  text: string;
  tab: TabName | null;
}

/** Splits a headline behind its first clause. */
export function splitHeadline(headline: string): { head: string; rest: string } {
  const match = /^(.+?)(?:[:;] |\. (?=[A-Z]))(.+)$/s.exec(headline);
  if (!match?.[1] || !match[2]) return { head: headline.replace(/\.$/, ""), rest: "" };
  return { head: match[1], rest: match[2].slice(0, 1).toUpperCase() + match[2].slice(1) };
}

/** Returns a number of an answer with its unit in words. */
export function quantity(value: number, unit: string): string {
  switch (unit) {
    case "seconds":
      return duration(value);
    case "thread-seconds":
      return threadTime(value);
    case "thread-hours":
      return threadTime(value * 3600);
    case "share":
      return share(value);
    case "bytes":
      return bytes(value);
    default:
      if (/^[A-Z]{3}$/.test(unit)) return money(value, unit);
      return Number.isInteger(value)
        ? counted(value, unit.replace(/s$/, ""), unit)
        : `${threeDigits(value)} ${unit}`;
  }
}

/** Returns the first items of the evidence as one line. */
export function evidenceText(answer: Answer, most: number): string {
  const items = answer.evidence.slice(0, most).map(({ label, value, unit }) => {
    return value === null || unit === null ? label : `${label}: ${quantity(value, unit)}`;
  });
  return items.join(" · ");
}

interface Asked {
  id: string;
  question: string;
  tab: TabName | null;
}

export function shownAnswer({ id, question, tab }: Asked, answer: Answer): ShownAnswer {
  const { head, rest } = splitHeadline(answer.headline);
  return {
    id,
    question,
    verdict: answer.verdict,
    head,
    isEstimated: answer.confidence === "ESTIMATED",
    text: rest || evidenceText(answer, 2),
    tab,
  };
}

/** The cost is a fact, and an amount is shorter than its sentence. */
export function costAnswer(answer: Answer): ShownAnswer {
  const asked = { id: "cost", question: "What did it cost?", tab: "cost" } as const;
  const shown = shownAnswer(asked, answer);
  const verdict = answer.verdict === "UNKNOWN" || answer.verdict === "GOOD" ? "FACT" : answer.verdict;
  if (answer.value === null || answer.unit === null) return { ...shown, verdict };
  const idle = answer.share === null ? "" : `${share(answer.share)} of it while threads were idle. `;
  const basis = answer.confidence === "ESTIMATED" ? "No rate is set." : "";
  return { ...shown, verdict, head: money(answer.value, answer.unit), text: idle + basis };
}

const SEVERITY = { BAD: 0, NOTICE: 1, UNKNOWN: 2, GOOD: 3 } as const;

/** Returns the answers worst first. */
export function worstFirst<T extends { verdict: keyof typeof SEVERITY }>(answers: readonly T[]): T[] {
  return [...answers].sort((a, b) => SEVERITY[a.verdict] - SEVERITY[b.verdict]);
}
