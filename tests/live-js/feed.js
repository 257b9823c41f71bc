// A cluster that keeps reporting, one event per report.
import { setTimeout as wait } from "node:timers/promises";

const STARTED_AT = 1_795_172_400;

/** Returns the id of an event. */
export const uuid = (number) => `00000000-0000-0000-0000-${String(number).padStart(12, "0")}`;

/** Reports events to a server, numbered from 1. */
export class Feed {
  #server;
  #last = 0;

  constructor(server) {
    this.#server = server;
  }

  /** The number of the last event. */
  get last() {
    return this.#last;
  }

  /** Reports the next event, and returns its number. */
  async next() {
    const number = (this.#last += 1);
    await this.#server.report({
      version: 1,
      scheduler_id: "Scheduler-1",
      sequence: number,
      sent_at: STARTED_AT + number,
      interval_seconds: 15,
      cluster: {
        started_at: STARTED_AT,
        workers: number,
        threads: 0,
        memory_used_bytes: 0,
        totals: {
          ...{ tasks: 0, tasks_succeeded: 0, tasks_erred: 0, errors: 0, compute_seconds: 0, transfer_seconds: 0 },
          ...{ thread_seconds: 0, bytes: 0, workers: 0, peak_workers: 0, peak_threads: 0 },
        },
      },
      events: [{ id: uuid(number), at: STARTED_AT + number, topic: "feed", data: { number } }],
    });
    return number;
  }

  /** Reports this number of events, with a pause in milliseconds after each. */
  async go(events, pause) {
    for (let event = 0; event < events; event += 1) {
      await this.next();
      await wait(pause);
    }
  }
}

/** Waits until a condition holds. */
export async function until(isSo, what) {
  const deadline = Date.now() + 60_000;
  while (!isSo()) {
    if (Date.now() > deadline) throw new Error(`in vain: ${what()}`);
    await wait(20);
  }
}
