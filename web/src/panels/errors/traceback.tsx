import { counted } from "@/format/number.ts";
import { Chip } from "@/ui/chip.tsx";
import { CopyButton } from "@/ui/copy_button.tsx";
import { Empty, Section, Withheld } from "@/ui/panel.tsx";
import styles from "./errors.module.css";
import { type Frame, type FrameGroup, frameGroups, frames, shortFile } from "./traceback.ts";

interface TracebackProps {
  type: string | null;
  message: string | null;
  /** Null if it cannot be decrypted, empty if nothing was raised. */
  traceback: string | null;
  /** The error that the traceback is of, as the heading's second part. */
  sub: string;
}

/** The frames of an error: the user's own are open, those of packages are folded. */
export function Traceback({ type, message, traceback, sub }: TracebackProps) {
  const exceptionText = namesClass(type, message) ? message : `${type ?? ""}: ${message ?? ""}`;
  return (
    <Section
      title="Traceback"
      sub={sub}
      actions={
        traceback ? (
          <CopyButton
            text={`${traceback}${exceptionText}\n`}
            label="Copy as text"
            look="ghost"
            size="normal"
          />
        ) : undefined
      }
    >
      {traceback === null && (
        <Withheld title="The traceback cannot be decrypted">
          The server lacks its key, or the stored text is damaged.
        </Withheld>
      )}
      {traceback === "" && (
        <Empty title="Nothing was raised">
          A worker that dies leaves no traceback. See where it died below.
        </Empty>
      )}
      {traceback && <Frames groups={frameGroups(frames(traceback))} text={traceback} />}
      <p className={styles.raised}>
        {!namesClass(type, message) && <strong>{type ?? "Class unknown"}</strong>}{" "}
        <span className={styles.message}>{message ?? "The message cannot be decrypted"}</span>
      </p>
    </Section>
  );
}

/** Returns true for a message that is the exception as code, and so names its class already. */
function namesClass(type: string | null, message: string | null): boolean {
  return type !== null && (message?.startsWith(`${type}(`) ?? false);
}

function Frames({ groups, text }: { groups: readonly FrameGroup[]; text: string }) {
  if (groups.length === 0) return <pre className={styles.code}>{text}</pre>;
  return (
    <ol className={styles.frames}>
      {groups.map((group, index) =>
        group.package === null ? (
          <OwnFrames
            // biome-ignore lint/suspicious/noArrayIndexKey: the frames of a traceback do not move
            key={index}
            frames={group.frames}
          />
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: the frames of a traceback do not move
          <li key={index}>
            <details>
              <summary className={styles.folded}>
                {counted(group.frames.length, "frame")} in {group.package}
              </summary>
              {group.frames.map((frame, at) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: the frames of a traceback do not move
                <FoldedFrame key={at} frame={frame} />
              ))}
            </details>
          </li>
        ),
      )}
    </ol>
  );
}

function OwnFrames({ frames: own }: { frames: readonly Frame[] }) {
  return own.map((frame) => <OwnFrame key={`${frame.file} ${frame.line} ${frame.name}`} frame={frame} />);
}

function OwnFrame({ frame }: { frame: Frame }) {
  return (
    <li>
      <div className={styles.frame}>
        <strong>{frame.name}</strong>
        <code className="faint truncated" title={frame.file}>
          {shortFile(frame.file)}:{frame.line}
        </code>
        <span className="grow" />
        <Chip tone="tag">your code</Chip>
      </div>
      {frame.code ? (
        <pre className={styles.code}>
          <span className={styles.lineNumber}>{frame.line}</span>
          {frame.code}
        </pre>
      ) : (
        <p className={`${styles.code} faint`}>Python did not have the source of this frame.</p>
      )}
    </li>
  );
}

function FoldedFrame({ frame }: { frame: Frame }) {
  return (
    <div className={styles.folding}>
      <div className={styles.frame}>
        {frame.name}
        <code className="faint truncated" title={frame.file}>
          {shortFile(frame.file)}:{frame.line}
        </code>
      </div>
      {frame.code && <pre className={styles.code}>{frame.code}</pre>}
    </div>
  );
}
