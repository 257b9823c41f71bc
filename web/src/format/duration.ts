const NO_BREAK = "\u00a0";

const pad = (value: number) => String(value).padStart(2, "0");

/** Returns a duration in two units: `47 m 36 s`, `2 h 01 m`, `3 d 04 h`. Fractions below ten seconds. */
export function duration(seconds: number): string {
  const parts = seconds < 0 ? [`\u2212${duration(-seconds)}`] : positiveParts(seconds);
  return parts.join(NO_BREAK);
}

/** Returns a duration rounded up to whole seconds, for times that still run: `4 s`, `3 h 12 m`. */
export function runningTime(seconds: number): string {
  const whole = Math.ceil(seconds);
  return whole < 10 ? `${whole}${NO_BREAK}s` : duration(whole);
}

function positiveParts(seconds: number): string[] {
  if (seconds === 0) return ["0", "s"];
  if (seconds < 0.001) return ["<", "1", "ms"];
  if (seconds < 0.9995) return [String(Math.round(seconds * 1000)), "ms"];
  if (seconds < 9.95) return [seconds.toFixed(1), "s"];
  const whole = Math.round(seconds);
  if (whole < 60) return [String(whole), "s"];
  if (whole < 3600) return [String(Math.floor(whole / 60)), "m", pad(whole % 60), "s"];
  const minutes = Math.round(seconds / 60);
  if (minutes < 1440) return [String(Math.floor(minutes / 60)), "h", pad(minutes % 60), "m"];
  const hours = Math.round(seconds / 3600);
  return [String(Math.floor(hours / 24)), "d", pad(hours % 24), "h"];
}

/** The unit of a column of thread times. */
export type ThreadUnit = "h" | "min" | "s" | "ms";

const SECONDS: Record<ThreadUnit, number> = { h: 3600, min: 60, s: 1, ms: 0.001 };

export function secondsOf(unit: ThreadUnit): number {
  return SECONDS[unit];
}

/** Returns the unit in which the largest value of a column has at least one digit before the point. */
export function threadUnit(largest: number): ThreadUnit {
  if (largest >= 3600) return "h";
  if (largest >= 60) return "min";
  return largest >= 1 || largest === 0 ? "s" : "ms";
}

const wholeNumbers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** Returns the decimals of a value, in a unit: one, and none from 1,000 on. */
const decimals = (seconds: number, unit: ThreadUnit) => (Math.abs(seconds) / SECONDS[unit] >= 999.95 ? 0 : 1);

function inUnit(seconds: number, unit: ThreadUnit, digits: 0 | 1): string {
  const value = seconds / SECONDS[unit];
  if (value > 0 && value < 10 ** -digits / 2) return `<${NO_BREAK}${digits ? "0.1" : "1"}${NO_BREAK}${unit}`;
  return `${(digits ? tenths : wholeNumbers).format(value).replace("-", "\u2212")}${NO_BREAK}${unit}`;
}

/** Returns thread time with one decimal: `15.0 h`. A value that is not 0 never reads as 0. */
export function threadTime(seconds: number): string {
  return threadTimes(seconds)(seconds);
}

/**
 * Returns a format for thread times that stand together, as in a column: all have the unit and the
 * decimals of the largest one.
 */
export function threadTimes(largest: number): (seconds: number) => string {
  const unit = threadUnit(largest);
  const digits = decimals(largest, unit);
  return (seconds) => inUnit(seconds, unit, digits);
}

const THREAD_NAMES: Record<ThreadUnit, string> = {
  h: "thread-hours",
  min: "thread-minutes",
  s: "thread-seconds",
  ms: "thread-milliseconds",
};

/** Returns thread time in words: `75.4 thread-hours`. */
export function threadTimeInWords(seconds: number): string {
  const unit = threadUnit(seconds);
  return threadTime(seconds).replace(new RegExp(`${unit}$`), THREAD_NAMES[unit]);
}
