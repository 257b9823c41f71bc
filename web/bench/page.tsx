import { QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, RouterContextProvider } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { createRoot, type Root } from "react-dom/client";
import uPlot from "uplot";
import { Flame } from "@/charts/flame/flame.tsx";
import { Lanes } from "@/charts/lanes/lanes.tsx";
import { AccountContext } from "@/data/account.ts";
import { createQueryClient } from "@/data/queries.ts";
import { ORIGIN_TOKENS, ORIGINS } from "@/panels/cluster/profile/calls.ts";
import { ClustersTable } from "@/panels/clusters/clusters_table.tsx";
import { DEFAULT_COLUMNS } from "@/panels/clusters/column_choice.ts";
import { useSelection } from "@/panels/clusters/selection.ts";
import { createAppRouter } from "@/routes/router.tsx";
import { callTree, manyClusters, manyLanes } from "./data.ts";

const ACCOUNT = "bench";
const PLOT = { width: 1100, height: 56 };
const RECTANGLE = { width: 1.2, height: 20 };

const nextFrame = () => new Promise<number>((resolve) => requestAnimationFrame(resolve));

/** Resolves after the work of a frame: a message is delivered once it has been painted. */
async function painted(): Promise<void> {
  await nextFrame();
  const { port1, port2 } = new MessageChannel();
  await new Promise((resolve) => {
    port1.onmessage = resolve;
    port2.postMessage(null);
  });
  port1.close();
}

/** Reads a pixel of each canvas, because what was drawn on it may only have been recorded until then. */
function finishCanvases(): void {
  for (const canvas of document.querySelectorAll("canvas")) canvas.getContext("2d")?.getImageData(0, 0, 1, 1);
}

let root: Root | null = null;

function emptyPlace(): HTMLElement {
  root?.unmount();
  root = null;
  const place = document.getElementById("root");
  if (!place) throw new Error("index.html has no element with the id root");
  place.replaceChildren();
  return place;
}

/** Shows the element in a new root, and returns the milliseconds until `isDrawn`, all canvases included. */
async function mount(element: ReactNode, isDrawn: () => boolean): Promise<number> {
  const place = emptyPlace();
  await painted();
  const begun = performance.now();
  root = createRoot(place);
  root.render(element);
  while (!isDrawn()) await painted();
  finishCanvases();
  return performance.now() - begun;
}

/** Draws without the dashboard, and returns the milliseconds as `mount` does. */
async function draw(paint: (place: HTMLElement) => void): Promise<number> {
  const place = emptyPlace();
  await painted();
  const begun = performance.now();
  paint(place);
  await painted();
  finishCanvases();
  return performance.now() - begun;
}

function lanes(number: number, points: number): Promise<number> {
  const { lanes, shown } = manyLanes(number, points);
  return mount(
    <Lanes
      label="Lanes."
      lanes={lanes}
      shown={shown}
      extent={shown}
      selection={null}
      onSelect={() => undefined}
    />,
    () => document.querySelectorAll("canvas").length === number,
  );
}

/** The same series on uPlot's charts without the dashboard. */
function plainPlots(number: number, points: number): Promise<number> {
  const { lanes } = manyLanes(number, points);
  return draw((place) => {
    for (const lane of lanes) {
      if (lane.kind !== "plot") continue;
      const series = lane.layers.map(() => ({ stroke: "black", points: { show: false } }));
      const data = [lane.times, ...lane.layers.map(({ values }) => values)] as unknown as uPlot.AlignedData;
      new uPlot({ ...PLOT, legend: { show: false }, series: [{}, ...series] }, data, place);
    }
  });
}

/** An element that follows the pointer, without anything else on the page. */
async function plainCrosshair(): Promise<void> {
  const place = emptyPlace();
  const line = document.createElement("div");
  line.style.cssText = "position: fixed; top: 0; left: 0; width: 1px; height: 100vh; background: black";
  place.append(line);
  document.onpointermove = (event) => {
    line.style.transform = `translateX(${event.clientX}px)`;
  };
  await painted();
}

function flame(nodes: number): Promise<number> {
  const tree = callTree(nodes);
  const colours = ORIGINS.map((origin) => ORIGIN_TOKENS[origin]);
  return mount(
    <Flame
      label="Calls."
      tree={tree}
      colour={(node) => colours[node % colours.length] ?? ORIGIN_TOKENS.std}
      root={-1}
      onRoot={() => undefined}
      tip={(node) => tree.names[node]}
      describe={(node) => tree.names[node] ?? ""}
    />,
    // A canvas that nobody has drawn on has the standard width.
    () => (document.querySelector("canvas")?.width ?? 300) !== 300,
  );
}

/** As many rectangles as the flame graph has, on a bare canvas of the same size. */
function rectangles(number: number): Promise<number> {
  return draw((place) => {
    const canvas = document.createElement("canvas");
    canvas.width = innerWidth;
    const rowLength = Math.floor(canvas.width / RECTANGLE.width);
    canvas.height = Math.ceil(number / rowLength) * RECTANGLE.height;
    place.append(canvas);
    const context = canvas.getContext("2d");
    const colours = ["#f7cf9b", "#cfdcf5", "#dfe3e9", "#e9ebe4"];
    for (let i = 0; context && i < number; i++) {
      context.fillStyle = colours[i % colours.length] ?? "";
      const left = (i % rowLength) * RECTANGLE.width;
      const top = Math.floor(i / rowLength) * RECTANGLE.height;
      context.fillRect(left, top, RECTANGLE.width - 0.5, RECTANGLE.height - 1);
    }
  });
}

function Clusters({ number }: { number: number }) {
  const [rows] = useState(() => manyClusters(number));
  const selected = useSelection(ACCOUNT, rows);
  return (
    <ClustersTable
      rows={rows}
      sums={null}
      columns={DEFAULT_COLUMNS}
      order={{ by: "started", direction: "desc" }}
      onOrder={() => undefined}
      selected={selected}
      onNearEnd={() => undefined}
    />
  );
}

function table(number: number): Promise<number> {
  const client = createQueryClient();
  const router = createAppRouter(client);
  router.update({ ...router.options, history: createMemoryHistory() });
  return mount(
    <AccountContext value={ACCOUNT}>
      <QueryClientProvider client={client}>
        <RouterContextProvider router={router}>
          <Clusters number={number} />
        </RouterContextProvider>
      </QueryClientProvider>
    </AccountContext>,
    () => document.querySelector("[role=table] [aria-rowindex]") !== null,
  );
}

/** An element as high as the table's rows, in one that scrolls like the table. */
async function plainScroller(height: number): Promise<void> {
  const place = emptyPlace();
  const scroller = document.createElement("div");
  const content = document.createElement("div");
  scroller.dataset.scrollRestorationId = "plain";
  scroller.style.cssText = "overflow: auto; max-height: 75vh";
  content.style.height = `${height}px`;
  scroller.append(content);
  place.append(scroller);
  await painted();
}

/** Scrolls to the end in as many frames, and returns their milliseconds. */
async function scroll(frames: number): Promise<number[]> {
  const scroller = document.querySelector("[data-scroll-restoration-id]");
  if (!scroller) throw new Error("nothing scrolls");
  const step = (scroller.scrollHeight - scroller.clientHeight) / frames;
  const times: number[] = [];
  let last = await nextFrame();
  for (let frame = 1; frame <= frames; frame++) {
    scroller.scrollTop = frame * step;
    const now = await nextFrame();
    times.push(now - last);
    last = now;
  }
  return times;
}

/** Returns the number of the last row in sight. */
function lastRow(): number {
  return Math.max(
    ...[...document.querySelectorAll("[aria-rowindex]")].map((row) => Number(row.ariaRowIndex)),
  );
}

const bench = { lanes, plainPlots, plainCrosshair, flame, rectangles, table, plainScroller, scroll, lastRow };

declare global {
  interface Window {
    bench: typeof bench;
  }
}

window.bench = bench;
