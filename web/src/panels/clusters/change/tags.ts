export interface Tag {
  key: string;
  value?: string | null;
}

/** The number of tags that a cluster can have. */
export const MAX_TAGS = 50;

/** Returns the tags with one added, or with another value. The others stay as they are. */
export function withTag(tags: readonly Tag[], tag: Tag): Tag[] {
  return [...tags.filter(({ key }) => key !== tag.key), tag].map(({ key, value }) => ({
    key,
    value: value ?? null,
  }));
}

/** Returns the tags without a key. */
export function withoutTag(tags: readonly Tag[], key: string): Tag[] {
  return tags.filter((tag) => tag.key !== key).map(({ key, value }) => ({ key, value: value ?? null }));
}
