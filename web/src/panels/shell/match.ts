/** Returns true if every word of the text is in the label, in any case and order. */
export function matches(label: string, text: string): boolean {
  const words = text.toLowerCase().split(/\s+/);
  return words.every((word) => label.toLowerCase().includes(word));
}

/** Returns the number that a text names, with or without `#`. Null if it names none. */
export function clusterNumber(text: string): string | null {
  return /^#?(\d{1,18})$/.exec(text.trim())?.[1] ?? null;
}
