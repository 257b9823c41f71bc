// Two clusters, as reported by their schedulers.

const STARTED_AT = 1_795_172_400;

const uuid = (number) => `00000000-0000-0000-0000-${String(number).padStart(12, "0")}`;

const computation = (number, ...groups) => ({
  id: uuid(number),
  started_at: STARTED_AT + number,
  stopped_at: STARTED_AT + number + 2.5,
  state: number % 2 ? "finished" : "erred",
  task_group_ids: groups.map(uuid),
});

const taskGroup = (number, prefix, ...dependencies) => ({
  id: uuid(number),
  name: `${prefix}-${number}`,
  prefix,
  first_seen_at: STARTED_AT + 1,
  started_at: STARTED_AT + 2,
  stopped_at: STARTED_AT + 3.5,
  states: { memory: 3, erred: 1 },
  tasks: 4,
  tasks_succeeded: 3,
  tasks_erred: 1,
  tasks_blamed: 0,
  durations: { compute: 1.5, transfer: 0.25 },
  bytes: 800,
  types: ["int"],
  dependencies: dependencies.map(uuid),
});

const error = (number, group, of) => ({
  id: uuid(number),
  at: STARTED_AT + number,
  key: `divide-${number}`,
  task_group_id: uuid(group),
  computation_id: uuid(of),
  type: "ZeroDivisionError",
  message: "ZeroDivisionError('division by zero') in \"größe\"\n\u{1f600}",
  traceback: '  File "x.py", line 1, in divide\n',
});

const event = (number, data) => ({ id: uuid(number), at: STARTED_AT + number, topic: `topic-${number}`, data });

const report = (scheduler, sections) => ({
  version: 1,
  scheduler_id: scheduler,
  sequence: 1,
  sent_at: STARTED_AT + 60,
  interval_seconds: 15,
  cluster: {
    started_at: STARTED_AT,
    workers: 1,
    threads: 4,
    memory_used_bytes: 1_000_000,
    totals: {
      ...{ tasks: 8, tasks_succeeded: 6, tasks_erred: 2, errors: 2, compute_seconds: 3, transfer_seconds: 0.5 },
      ...{ thread_seconds: 240, bytes: 1_600, workers: 1, peak_workers: 1, peak_threads: 4 },
    },
  },
  ...sections,
});

/** The reports of a cluster with computations, task groups, errors and events, and of an empty one. */
export const reports = [
  report("Scheduler-1", {
    computations: [computation(1, 11, 12), computation(2, 13), computation(3)],
    task_groups: [taskGroup(11, "load"), taskGroup(12, "divide", 11), taskGroup(13, "sum", 11, 12)],
    errors: [error(21, 12, 1), error(22, 13, 2)],
    events: [event(31, { b: 1, a: [null, true, "x"] }), event(32, "text"), event(33, 1.5)],
  }),
  report("Scheduler-2", {}),
];
