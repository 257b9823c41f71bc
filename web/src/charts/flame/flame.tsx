import {
  type KeyboardEvent,
  type MouseEvent,
  type ReactNode,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { useShownTheme } from "@/ui/theme.ts";
import { type Token, tokenValue } from "../colour.ts";
import styles from "./flame.module.css";
import { type FlameLayout, type FlameTree, fitted, flameNodeAt, layoutFlame } from "./layout.ts";

export interface FlameProps {
  /** A sentence that says what the graph shows. */
  label: string;
  tree: FlameTree;
  colour(node: number): Token;
  isHit?(node: number): boolean;
  /** The node that has the whole width; -1 for all. */
  root: number;
  onRoot(node: number): void;
  tip(node: number): ReactNode;
  /** A node in words, for screen readers. */
  describe(node: number): string;
}

const ROW = 20;
const MIN_PIXELS = 0.5;
const TEXT_PIXELS = 30;

/** Calls as rectangles below their callers, as wide as their share. Enter shows a node over the whole width. */
export function Flame({ label, tree, colour, isHit, root, onRoot, tip, describe }: FlameProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [node, setNode] = useState(-1);
  const theme = useShownTheme();
  const layout = useMemo(() => layoutFlame(tree, root), [tree, root]);
  const height = Math.max(1, layout.depth) * ROW;

  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    // The observer reports a frame later.
    setWidth(element.clientWidth);
    const observer = new ResizeObserver(([entry]) => setWidth(entry?.contentRect.width ?? 0));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the theme stands for the values of the tokens
  useEffect(() => {
    if (canvas.current && width > 0) paint(canvas.current, { tree, layout, width, height, colour, isHit });
  }, [tree, layout, width, height, colour, isHit, theme]);

  const at = (event: MouseEvent) => {
    const box = event.currentTarget.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / ROW);
    return flameNodeAt(layout, (event.clientX - box.left) / box.width, row);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape" && root >= 0) {
      event.preventDefault();
      return onRoot(-1);
    }
    if (event.key === "Enter" && node >= 0) return onRoot(node);
    const next = neighbour(tree, layout, node, event.key);
    if (next === null) return;
    event.preventDefault();
    setNode(next);
  };
  const left = node >= 0 ? (layout.lefts[node] ?? 0) : 0;
  return (
    <div className={styles.holder}>
      <canvas
        ref={canvas}
        className={styles.canvas}
        style={{ height }}
        role="img"
        aria-label={`${label} Arrow keys move, Enter enlarges, Escape shows everything.`}
        tabIndex={0}
        onMouseMove={(event) => setNode(at(event))}
        onMouseLeave={() => setNode(-1)}
        onClick={(event) => onRoot(at(event))}
        onKeyDown={onKeyDown}
      />
      {node >= 0 && (
        <>
          <div
            className={styles.mark}
            style={{
              top: (layout.depths[node] ?? 0) * ROW,
              left: `${left * 100}%`,
              width: `${(layout.widths[node] ?? 0) * 100}%`,
            }}
          />
          <div
            className={styles.tip}
            style={{
              top: ((layout.depths[node] ?? 0) + 1) * ROW + 4,
              ...(left > 0.6 ? { right: 0 } : { left: `${left * 100}%` }),
            }}
          >
            {tip(node)}
          </div>
        </>
      )}
      <p className="hidden" aria-live="polite">
        {node >= 0 ? describe(node) : ""}
      </p>
    </div>
  );
}

/** Returns the node that an arrow key leads to. Null for other keys. */
function neighbour(tree: FlameTree, layout: FlameLayout, node: number, key: string): number | null {
  const shown = (i: number) => (layout.widths[i] ?? 0) > 0;
  const parent = tree.parents[node] ?? -1;
  if (node < 0) return key.startsWith("Arrow") ? layout.widths.findIndex((width) => width > 0) : null;
  if (key === "ArrowUp") return parent >= 0 && shown(parent) ? parent : node;
  const count = tree.parents.length;
  if (key === "ArrowDown") {
    for (let i = node + 1; i < count; i++) if (tree.parents[i] === node && shown(i)) return i;
    return node;
  }
  const step = key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : 0;
  if (step === 0) return null;
  for (let i = node + step; i >= 0 && i < count; i += step)
    if (tree.parents[i] === parent && shown(i)) return i;
  return node;
}

interface Scene {
  tree: FlameTree;
  layout: FlameLayout;
  width: number;
  height: number;
  colour: FlameProps["colour"];
  isHit: FlameProps["isHit"];
}

/** Fills pixels instead of rectangles: a canvas takes many times as long for each rectangle. */
function paint(canvas: HTMLCanvasElement, scene: Scene): void {
  const { tree, layout, width, height, colour, isHit } = scene;
  const scale = devicePixelRatio;
  const across = Math.round(width * scale);
  const row = Math.round(ROW * scale);
  const gap = Math.round(scale);
  canvas.width = across;
  canvas.height = row * Math.round(height / ROW);
  const context = canvas.getContext("2d");
  if (!context) return;
  const image = context.createImageData(across, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const values = new Map<Token, number>();
  const value = (token: Token) => {
    const known = values.get(token) ?? pixel(tokenValue(token));
    values.set(token, known);
    return known;
  };
  const wide: number[] = [];
  for (let i = 0; i < layout.widths.length; i++) {
    const size = (layout.widths[i] ?? 0) * width;
    if (size < MIN_PIXELS) continue;
    if (size >= TEXT_PIXELS) wide.push(i);
    const line = (layout.depths[i] ?? 0) * row * across;
    const left = Math.floor((layout.lefts[i] ?? 0) * across);
    const right = Math.max(left + 1, Math.round((layout.lefts[i] ?? 0) * across + size * scale) - gap);
    pixels.fill(value(isHit?.(i) ? "--flame-hit" : colour(i)), line + left, line + right);
  }
  // The lines of a row are equal.
  for (let top = 0; top < pixels.length; top += row * across)
    for (let line = 1; line < row - gap; line++) pixels.copyWithin(top + line * across, top, top + across);
  context.putImageData(image, 0, 0);
  context.scale(scale, scale);
  context.font = `11px ${tokenValue("--font-sans")}`;
  context.textBaseline = "middle";
  context.fillStyle = tokenValue("--text");
  for (const i of wide) {
    const room = (layout.widths[i] ?? 0) * width - 8;
    const x = (layout.lefts[i] ?? 0) * width + 4;
    const y = (layout.depths[i] ?? 0) * ROW;
    context.save();
    context.beginPath();
    context.rect(x, y, room, ROW);
    context.clip();
    context.fillText(
      fitted(tree.names[i] ?? "", room, (text) => context.measureText(text).width),
      x,
      y + ROW / 2,
    );
    context.restore();
  }
}

/** Returns a colour of six hexadecimal digits as a pixel, in the order of bytes of all processors that matter. */
function pixel(hex: string): number {
  const rgb = Number.parseInt(hex.slice(1), 16);
  return ((0xff << 24) | ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
}
