const NO_BREAK = "\u00a0";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** Returns a count with separators: `41,266`. */
export function count(value: number): string {
  return whole.format(value);
}

const STEPS = [
  { from: 1e9, suffix: `${NO_BREAK}G` },
  { from: 1e6, suffix: `${NO_BREAK}M` },
  { from: 1e4, suffix: "k", divisor: 1e3 },
];

/** Returns a count of at most three significant digits: `14.2k`, `35.3 M`. Exact below 10,000. */
export function shortCount(value: number): string {
  for (const { from, suffix, divisor } of STEPS) {
    if (Math.abs(value) >= from) return threeDigits(value / (divisor ?? from)) + suffix;
  }
  return whole.format(value);
}

/** Returns a number with three significant digits and no exponent: `5.12`, `51.2`, `512`. */
export function threeDigits(value: number): string {
  const size = Math.abs(value);
  const digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
}

/** Returns a share from 0 to 1 in percent: `41 %`. A share that is not 0 never reads as 0. */
export function share(value: number): string {
  if (value > 0 && value < 0.005) return `<${NO_BREAK}1${NO_BREAK}%`;
  if (value < 1 && value >= 0.995) return `>${NO_BREAK}99${NO_BREAK}%`;
  return `${whole.format(value * 100)}${NO_BREAK}%`;
}

/** Returns the number with its noun: `1 worker`, `24 workers`. */
export function counted(value: number, noun: string, plural = `${noun}s`): string {
  return `${count(value)}${NO_BREAK}${value === 1 ? noun : plural}`;
}

/** Returns the difference with its sign: `+4.7`, `−3`, `±0`. One that reads as less than the last digit is `±0.0`. */
export function signed(value: number, format: (size: number) => string): string {
  const text = format(Math.abs(value)).replace(/^<\s(\D*[\d.]*)1/, "$10");
  if (!/[1-9]/.test(text)) return `±${text}`;
  return (value > 0 ? "+" : "\u2212") + text;
}
