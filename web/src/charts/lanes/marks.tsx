import { memo, type ReactNode, useState } from "react";
import { clockSeconds } from "@/format/time.ts";
import { Menu, MenuItem } from "@/ui/menu.tsx";
import styles from "./lanes.module.css";
import { groupMarks, type MarkGroup } from "./mark_groups.ts";
import type { Mark, MarkKind, TimeRange } from "./types.ts";

const SHAPES: Record<MarkKind, ReactNode> = {
  death: (
    <>
      <circle cx="8" cy="8" r="6.5" fill="var(--bg-panel)" stroke="var(--bad)" strokeWidth="1.5" />
      <path
        d="M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8"
        stroke="var(--bad)"
        strokeWidth="1.5"
        strokeLinecap="round"
      />
    </>
  ),
  error: (
    <>
      <path d="M8 1 15 14H1z" fill="var(--bad)" />
      <path d="M8 6v3.2M8 11.4v.1" stroke="var(--bg-panel)" strokeWidth="1.5" strokeLinecap="round" />
    </>
  ),
  flag: <path d="M1 2h14L8 14z" fill="var(--bg-panel)" stroke="var(--notice)" strokeWidth="1.5" />,
  event: (
    <path d="M8 1.5 14.5 8 8 14.5 1.5 8z" fill="var(--bg-panel)" stroke="var(--text-2)" strokeWidth="1.5" />
  ),
};

interface MarksProps {
  marks: readonly Mark[];
  shown: TimeRange;
  width: number;
  /** Called with the time of the mark that is pointed at, and with null after it. */
  onPoint(at: number | null): void;
  onOpen?: ((mark: Mark) => void) | undefined;
}

/** The marks, in the order of time, each with a card. Several at one place open a menu. */
export const Marks = memo(function Marks({ marks, shown, width, onPoint, onOpen }: MarksProps) {
  const [pointed, setPointed] = useState<MarkGroup | null>(null);
  const point = (group: MarkGroup | null) => {
    setPointed(group);
    onPoint(group?.marks[0]?.at ?? null);
  };
  const groups = width > 0 ? groupMarks(marks, shown, width) : [];
  return (
    <div className={styles.marks}>
      {groups.map((group) => (
        <GroupButton
          key={group.marks[0]?.id}
          group={group}
          at={group.share * width - group.from}
          onPoint={point}
          onOpen={onOpen}
        />
      ))}
      {pointed && <Card group={pointed} />}
    </div>
  );
});

interface GroupButtonProps {
  group: MarkGroup;
  /** The place of the shape on the button, in pixels. */
  at: number;
  onPoint(group: MarkGroup | null): void;
  onOpen: ((mark: Mark) => void) | undefined;
}

function GroupButton({ group, at, onPoint, onOpen }: GroupButtonProps) {
  const { marks, from, to } = group;
  const [first] = marks;
  if (!first) return null;
  const names = marks.map(({ title }) => title).join("; ");
  const isSingle = marks.length === 1;
  const button = (
    <button
      type="button"
      className={styles.mark}
      style={{ left: from, width: to - from }}
      aria-label={isSingle ? names : `${marks.length} marks: ${names}`}
      onMouseEnter={() => onPoint(group)}
      onMouseLeave={() => onPoint(null)}
      onFocus={() => onPoint(group)}
      onBlur={() => onPoint(null)}
      onClick={() => (isSingle ? onOpen?.(first) : onPoint(null))}
    >
      <span className={styles.shape} style={{ left: at }}>
        <Shape kind={first.kind} />
        {!isSingle && <small aria-hidden="true">{marks.length}</small>}
      </span>
    </button>
  );
  if (isSingle || !onOpen) return button;
  return (
    <Menu trigger={button}>
      {marks.map((mark) => (
        <MenuItem key={mark.id} onSelect={() => onOpen(mark)}>
          <span className={styles.choice}>
            <Shape kind={mark.kind} />
            {mark.title}
            <span className="faint small">{timedDetail(mark)}</span>
          </span>
        </MenuItem>
      ))}
    </Menu>
  );
}

function timedDetail({ at, detail }: Mark): string {
  return [clockSeconds(at * 1000), detail].filter(Boolean).join(" · ");
}

function Shape({ kind }: { kind: MarkKind }) {
  return (
    <svg width="16" height="16" viewBox="0 0 16 16" fill="none" aria-hidden="true">
      {SHAPES[kind]}
    </svg>
  );
}

const SHOWN_IN_CARD = 3;

function Card({ group }: { group: MarkGroup }) {
  const side =
    group.share > 0.6 ? { right: `${(1 - group.share) * 100}%` } : { left: `${group.share * 100}%` };
  const hidden = group.marks.length - SHOWN_IN_CARD;
  return (
    <div className={styles.card} style={side} data-kind={group.marks[0]?.kind}>
      {group.marks.slice(0, SHOWN_IN_CARD).map((mark) => (
        <div key={mark.id}>
          <strong>{mark.title}</strong>
          {/* The time of a single mark stands at the crosshair. */}
          {group.marks.length > 1 ? timedDetail(mark) : mark.detail}
        </div>
      ))}
      {hidden > 0 && <div className="faint">and {hidden} more here</div>}
    </div>
  );
}
