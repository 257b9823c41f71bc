/** A frame of a traceback, as Python prints it. */
export interface Frame {
  file: string;
  line: number;
  name: string;
  /** The failing line. Empty if Python did not have the source. */
  code: string;
}

/** Frames of one origin, one after another. */
export interface FrameGroup {
  /** The package that the frames belong to. Null for code of the user. */
  package: string | null;
  frames: Frame[];
}

const HEAD = /^ {2}File "(.*)", line (\d+), in (.*)$/;
// The marks below the failing part of a line.
const MARKS = /^\s*[~^]+[~^\s]*$/;

/** Returns the frames, the outermost one first. Lines that belong to none are left out. */
export function frames(traceback: string): Frame[] {
  const found: Frame[] = [];
  for (const text of traceback.split("\n")) {
    const head = HEAD.exec(text);
    if (head) {
      found.push({ file: head[1] ?? "", line: Number(head[2]), name: head[3] ?? "", code: "" });
      continue;
    }
    const frame = found.at(-1);
    if (!frame || !text.startsWith("    ") || MARKS.test(text)) continue;
    frame.code += (frame.code ? "\n" : "") + text.slice(4);
  }
  return found;
}

const INSTALLED = /[/\\](?:site|dist)-packages[/\\]([^/\\]+)/;
const STANDARD = /(?:[/\\]lib[/\\]python\d[\d.]*[/\\]|^<frozen )/i;

/** Returns the package that a file belongs to: an installed one, `Python` for its library, null for others. */
export function packageOf(file: string): string | null {
  const installed = INSTALLED.exec(file)?.[1];
  if (installed) return installed.replace(/\.py$/, "");
  return STANDARD.test(file) ? "Python" : null;
}

/** Returns the frames in groups of one package. */
export function frameGroups(all: readonly Frame[]): FrameGroup[] {
  const groups: FrameGroup[] = [];
  for (const frame of all) {
    const owner = packageOf(frame.file);
    const last = groups.at(-1);
    if (last && last.package === owner) last.frames.push(frame);
    else groups.push({ package: owner, frames: [frame] });
  }
  return groups;
}

/** Returns the last two parts of a path, which tell most files apart. */
export function shortFile(file: string): string {
  return file.split(/[/\\]/).slice(-2).join("/");
}
