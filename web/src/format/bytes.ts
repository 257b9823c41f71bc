import { threeDigits } from "./number.ts";

const NO_BREAK = "\u00a0";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] as const;

/** The exponent of 1,024 of a unit. */
export type ByteExponent = 0 | 1 | 2 | 3 | 4 | 5 | 6;

/** Returns the exponent of the largest unit in which the value is at least 1. */
export function byteExponent(value: number): ByteExponent {
  let exponent = 0;
  // Rounding must not lead to `1024 MiB`.
  while (exponent < 6 && Math.abs(value) / 1024 ** exponent >= 1023.5) exponent += 1;
  return exponent as ByteExponent;
}

export function byteUnit(exponent: ByteExponent): string {
  return UNITS[exponent];
}

/** Returns a size with three significant digits, 1,024-based: `5.1 GiB`. */
export function bytes(value: number): string {
  const exponent = byteExponent(value);
  return `${threeDigits(value / 1024 ** exponent)}${NO_BREAK}${UNITS[exponent]}`;
}

/** Returns the number of bytes without a unit, for a column or an axis that names the unit once. */
export function bytesIn(value: number, exponent: ByteExponent): string {
  return threeDigits(value / 1024 ** exponent);
}

/** Returns a rate: `12 MiB/s`. */
export function byteRate(value: number): string {
  return `${bytes(value)}/s`;
}
