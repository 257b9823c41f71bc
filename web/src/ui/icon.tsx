const PATHS = {
  account: "M4.5 6.5 8 10l3.5-3.5",
  overview: "M2.5 7 8 2.5 13.5 7v6.5h-4v-4h-3v4h-4z",
  clusters: "M8 1.8 13.4 5v6L8 14.2 2.6 11V5zM8 8l5.2-3M8 8v6M8 8 2.8 5",
  errors: "M8 2 14.5 13.5h-13zM8 6.5v3.2M8 11.7v.1",
  compare: "M5 2.5v11M2.5 5 5 2.5 7.5 5M11 13.5v-11M8.5 11l2.5 2.5 2.5-2.5",
  dark: "M12.8 9.6A5.4 5.4 0 0 1 6.4 3.2a5.4 5.4 0 1 0 6.4 6.4z",
  light:
    "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9",
  system: "M2 3h12v8H2zM6 13.5h4M8 11v2.5",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.4 10.4l3.3 3.3",
  stop: "M4.5 4.5h7v7h-7z",
  plus: "M8 3.5v9M3.5 8h9",
  close: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  more: "M3.5 8h.1M8 8h.1M12.5 8h.1",
  copy: "M5.5 5.5h7v7h-7zM3.5 10.5v-7h7",
  check: "M3.5 8.5l3 3 6-7",
  tag: "M2.5 2.5h5.2l5.8 5.8-5.2 5.2-5.8-5.8zM5.4 5.4v.1",
  export: "M6 3.5H3.5v9h9V10M9 3.5h3.5V7M12.3 3.7 7.5 8.5",
  play: "M5 3.5v9l7.5-4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  table: "M2.5 3.5h11v9h-11zM2.5 6.5h11M2.5 9.5h11M6.2 6.5v6",
  down: "M4.5 6.5 8 10l3.5-3.5",
  right: "M6.5 4.5 10 8l-3.5 3.5",
  link: "M6.5 9.5l3-3M7 5l1.5-1.5a2.5 2.5 0 0 1 3.6 3.6L10.6 8.6M9 11l-1.5 1.5a2.5 2.5 0 0 1-3.6-3.6L5.4 7.4",
  user: "M8 2.5a2.7 2.7 0 1 0 0 5.4 2.7 2.7 0 0 0 0-5.4zM2.8 13.5c.4-2.6 2.6-3.8 5.2-3.8s4.8 1.2 5.2 3.8",
  key: "M5 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM7.5 8h6v2.5M11 8v2",
  leave: "M6.5 2.5h-4v11h4M6.5 8h7M10.5 5l3 3-3 3",
  keyboard: "M1.5 4h13v8h-13zM4 6.5h.1M6.6 6.5h.1M9.3 6.5h.1M12 6.5h.1M5 9.5h6",
} as const;

export type IconName = keyof typeof PATHS;

/** An icon beside a word. It is hidden from screen readers, because the word names the control. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      viewBox="0 0 16 16"
      width={size}
      height={size}
      fill="none"
      stroke="currentColor"
      strokeWidth={1.5}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

/** Galvo's mark. */
export function Mark() {
  return (
    <svg width="22" height="22" viewBox="0 0 22 22" aria-hidden="true" focusable="false">
      <path
        d="M3 16.5a8 8 0 1 1 16 0"
        fill="none"
        stroke="var(--text)"
        strokeWidth="2"
        strokeLinecap="round"
      />
      <path d="M11 16.5 15.6 8" stroke="var(--bad)" strokeWidth="2" strokeLinecap="round" />
      <circle cx="11" cy="16.5" r="2" fill="var(--text)" />
    </svg>
  );
}
