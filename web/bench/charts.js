// The lanes, the flame graph and the table, with synthetic data on a page of their own.
import { longest, median, quantile, result } from "./results.js";

const LANES = 20;
const POINTS = 1_000;
const NODES = 50_000;
const ROWS = 10_000;
const SCROLL_FRAMES = 1_000;
const AIMS = { lanes: 150, move: 16.7, flame: 50, frame: 50 };

const ms = (value) => `${value.toFixed(1)} ms`;

/** Runs both functions of the page in turns, and returns the milliseconds of each. */
async function inTurns(page, rounds, [name, ...args], [otherName, ...otherArgs]) {
  const call = ([called, given]) => window.bench[called](...given);
  const times = [];
  const others = [];
  // The first round compiles the scripts.
  for (let round = 0; round <= rounds; round++) {
    const time = await page.evaluate(call, [name, args]);
    const other = await page.evaluate(call, [otherName, otherArgs]);
    if (round === 0) continue;
    times.push(time);
    others.push(other);
  }
  return { times, others };
}

function drawnResult(benchmark, { times, others }, reference, aim) {
  result({
    benchmark,
    figure: `${ms(median(times))} (median of ${times.length}, longest ${ms(longest(times))})`,
    reference: `${ms(median(others))} for ${reference}`,
    ratio: median(times) / median(others),
    aim: `<= ${aim} ms`,
    held: median(times) <= aim,
  });
}

/** Moves the pointer, and returns the milliseconds that the page's thread worked on each move. */
async function moves(page, session, count) {
  const worked = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find(({ name }) => name === "TaskDuration").value * 1000;
  };
  const times = [];
  for (let move = 0; move < count; move++) {
    const before = await worked();
    await page.mouse.move(250 + move * 5, 300);
    // The frame of the move, and the one in which its consequences are shown.
    await page.evaluate(
      () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))),
    );
    times.push((await worked()) - before);
  }
  return times;
}

export async function measureLanes(page, { rounds }) {
  const times = await inTurns(page, rounds, ["lanes", LANES, POINTS], ["plainPlots", LANES, POINTS]);
  drawnResult(
    `dashboard, ${LANES} lanes of ${POINTS.toLocaleString("en")} points: mount`,
    times,
    "plain uPlot charts of the same series",
    AIMS.lanes,
  );
}

export async function measureCrosshair(page, { rounds }) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const count = rounds * 10;
  await page.evaluate(() => window.bench.plainCrosshair());
  await moves(page, session, 10);
  const plain = await moves(page, session, count);
  await page.evaluate(([lanes, points]) => window.bench.lanes(lanes, points), [LANES, POINTS]);
  await moves(page, session, 10);
  const times = await moves(page, session, count);
  const shown = await page.getByRole("slider").getAttribute("aria-valuenow");
  if (!(Number(shown) > 0)) throw new Error("the crosshair has not followed");
  const p95 = quantile(times, 0.95);
  result({
    benchmark: `dashboard, ${LANES} lanes of ${POINTS.toLocaleString("en")} points: crosshair`,
    figure: `${ms(p95)} of the page's thread for each move of the pointer in the 95th percentile (median ${ms(median(times))}, ${count} moves)`,
    reference: `${ms(quantile(plain, 0.95))} for a bare element that follows the pointer`,
    ratio: p95 / quantile(plain, 0.95),
    aim: `<= ${AIMS.move} ms`,
    held: p95 <= AIMS.move,
  });
  await session.detach();
}

export async function measureFlame(page, { rounds }) {
  const times = await inTurns(page, rounds, ["flame", NODES], ["rectangles", NODES]);
  drawnResult(
    `dashboard, flame graph of ${NODES.toLocaleString("en")} nodes: drawn`,
    times,
    "as many rectangles on a bare canvas",
    AIMS.flame,
  );
}

export async function measureTable(page, { rounds }) {
  const frames = [];
  const plain = [];
  let mounted = 0;
  for (let round = 0; round < Math.max(1, Math.round(rounds / 10)); round++) {
    mounted = await page.evaluate((rows) => window.bench.table(rows), ROWS);
    frames.push(...(await page.evaluate((count) => window.bench.scroll(count), SCROLL_FRAMES)));
    const last = await page.evaluate(() => window.bench.lastRow());
    if (last !== ROWS) throw new Error(`the table ends at row ${last}`);
    await page.evaluate((rows) => window.bench.plainScroller(rows * 34), ROWS);
    plain.push(...(await page.evaluate((count) => window.bench.scroll(count), SCROLL_FRAMES)));
  }
  const p95 = quantile(frames, 0.95);
  result({
    benchmark: `dashboard, ${ROWS.toLocaleString("en")} rows scrolled`,
    figure: `${ms(p95)} a frame in the 95th percentile (median ${ms(median(frames))}, longest ${ms(longest(frames))}, ${Math.round(ROWS / SCROLL_FRAMES)} rows a frame, ${frames.length} frames; mount ${ms(mounted)})`,
    reference: `${ms(quantile(plain, 0.95))} for an empty element of the same height`,
    ratio: p95 / quantile(plain, 0.95),
    aim: `<= ${AIMS.frame} ms`,
    held: p95 <= AIMS.frame,
  });
}
