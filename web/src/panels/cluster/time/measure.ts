import { byteExponent, bytesIn, byteUnit } from "@/format/bytes.ts";
import { threadTimes } from "@/format/duration.ts";
import { shortCount } from "@/format/number.ts";

export const MEASURES = [
  { value: "seconds", label: "Time" },
  { value: "bytes", label: "Bytes" },
  { value: "count", label: "Count" },
] as const;

export type Measure = (typeof MEASURES)[number]["value"];

/** Returns a format whose values all have the unit of the largest one. */
export function formatOf(measure: Measure, largest: number): (value: number) => string {
  if (measure === "bytes") {
    const exponent = byteExponent(largest);
    return (value) => `${bytesIn(value, exponent)}\u00a0${byteUnit(exponent)}`;
  }
  if (measure === "count") return shortCount;
  return threadTimes(largest);
}
