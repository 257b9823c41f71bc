"""A scheduler preload that returns Dask's own data, independently of Galvo's plugin.

Dask drops a task group as soon as all of its tasks are forgotten. Holding its objects is sufficient
to read their final values later.
"""

import gc
import json
import sys
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

from distributed.diagnostics.plugin import SchedulerPlugin


class Witness(SchedulerPlugin):
    name = "witness"

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.groups = {}  # the number of erred tasks of each TaskGroup object
        self.origins = {}  # the TaskGroup and the Computation of each erred task, by its key
        self.workers = self.peak_workers = self.peak_threads = 0

    def transition(self, key, start, finish, *args, **kwargs):
        task = self.scheduler.tasks[key]
        self.groups.setdefault(task.group, 0)
        if finish == "erred" and task.exception_blame is task:
            self.groups[task.group] += 1
            # A new computation starts only when nothing is left to do.
            self.origins[str(key)] = task.group, str(self.scheduler.computations[-1].id)

    def add_worker(self, scheduler, worker):
        self.workers += 1
        self.peak_workers = max(self.peak_workers, len(scheduler.workers))
        threads = sum(ws.nthreads for ws in scheduler.workers.values())
        self.peak_threads = max(self.peak_threads, threads)

    async def report(self):
        scheduler = self.scheduler
        for history in (scheduler.erred_tasks, scheduler.computations):
            assert len(history) < history.maxlen, "Dask itself does not remember more"
        for group in scheduler.task_groups.values():  # scattered data has no transition
            self.groups.setdefault(group, 0)
        place = {group: n for n, group in enumerate(self.groups)}
        return json.dumps(
            {
                "scheduler_id": scheduler.id,
                "address": scheduler.address,
                "started_at": scheduler.time_started,
                "threads_history": list(scheduler.total_nthreads_history),
                "workers_now": len(scheduler.workers),
                "threads_now": sum(ws.nthreads for ws in scheduler.workers.values()),
                "workers": self.workers,
                "peak_workers": self.peak_workers,
                "peak_threads": self.peak_threads,
                "prefixes": {
                    prefix.name: {
                        "state_counts": dict(prefix.state_counts),
                        "durations": dict(prefix.all_durations),
                    }
                    for prefix in scheduler.task_prefixes.values()
                },
                "groups": [
                    {
                        "name": group.name,
                        "prefix": group.prefix.name,
                        "start": group.start,
                        "stop": group.stop,
                        "states": dict(group.states),
                        "tasks": len(group),
                        "erred": erred,
                        "durations": dict(group.all_durations),
                        "bytes": group.nbytes_total,
                        "types": list(group.types),
                        "dependencies": [
                            place[other] for other in group.dependencies if other is not group
                        ],
                    }
                    for group, erred in self.groups.items()
                ],
                "computations": [
                    {
                        "id": str(computation.id),
                        "start": computation.start,
                        "stop": computation.stop,
                        "groups": [place[group] for group in computation.groups],
                    }
                    for computation in scheduler.computations
                ],
                "errors": [
                    {
                        "key": str(error.key),
                        "group": place[self.origins[str(error.key)][0]],
                        "computation": self.origins[str(error.key)][1],
                        "at": error.timestamp,
                        "workers": list(error.erred_on),
                        "message": error.exception_text,
                        "traceback": error.traceback_text,
                    }
                    for error in scheduler.erred_tasks
                ],
            }
        )

    async def tasks(self):
        return [str(key) for key in self.scheduler.tasks]

    async def footprint(self):
        """Returns the bytes that only Galvo's plugin keeps alive, as far as determinable."""
        gc.collect()
        seen, total = set(), 0
        left = [vars(self.scheduler.plugins["galvo"])]
        while left:
            found = left.pop()
            if id(found) in seen or belongs_elsewhere(found):
                continue
            seen.add(id(found))
            total += sys.getsizeof(found)
            left.extend(gc.get_referents(found))
        return total


def belongs_elsewhere(found):
    if isinstance(found, (type, ModuleType, FunctionType, BuiltinFunctionType, CodeType)):
        return True
    libraries = ("distributed", "tornado", "asyncio", "_asyncio", "logging", "threading")
    return type(found).__module__.partition(".")[0] in libraries


def dask_setup(scheduler):
    witness = Witness(scheduler)
    scheduler.add_plugin(witness)
    scheduler.handlers["dask_report"] = witness.report
    scheduler.handlers["dask_tasks"] = witness.tasks
    scheduler.handlers["galvo_footprint"] = witness.footprint
