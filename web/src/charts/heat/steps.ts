/** Returns the step of a value: 0 for nothing, else the number of limits that it reaches, at least 1. */
export function heatStep(value: number, cuts: readonly number[]): number {
  if (value <= 0) return 0;
  return Math.max(1, cuts.filter((cut) => value >= cut).length);
}

const ROUND = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

function rounded(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return (ROUND.findLast((mantissa) => mantissa * power <= value * (1 + 1e-9)) ?? 1) * power;
}

/** Returns the lower limits of seven steps: quantiles of the values above 0, rounded down, ascending. */
export function heatCuts(values: readonly number[]): number[] {
  const sorted = values.filter((value) => value > 0).sort((a, b) => a - b);
  if (sorted.length === 0) return [];
  const cuts: number[] = [];
  for (let step = 0; step < 7; step++) {
    const cut = rounded(sorted[Math.floor((step / 7) * sorted.length)] ?? 0);
    if (cut > (cuts.at(-1) ?? 0)) cuts.push(cut);
  }
  return cuts;
}
