"""A scheduler preload that records Dask's data about workers, clients and resources.

The witness reports tasks, this one where they ran, independently of Galvo's plugin.
"""

import json
import sys
from time import time

from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.versions import get_versions
from tornado.ioloop import PeriodicCallback

SAMPLE_MILLISECONDS = 20
WHAT = ("samples", "events", "texts", "keys")


class Observer(SchedulerPlugin):
    name = "observer"

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.workers = []
        self.clients = {}
        self.samples = []
        self.timer = None

    async def start(self, scheduler):
        if self.timer is None:
            self.timer = PeriodicCallback(self.sample, SAMPLE_MILLISECONDS)
            self.timer.start()

    def add_worker(self, scheduler, worker):
        state = scheduler.workers[worker]
        self.workers.append(
            {
                "id": state.server_id.partition("-")[2],
                "name": str(state.name),
                "address": state.address,
                "host": state.host,
                "process": state.pid,
                "threads": state.nthreads,
                "limit": state.memory_limit,
                "versions": state.versions,
                "started": time(),
                "ended": None,
            }
        )
        # A worker may join or leave before the next sample.
        self.sample()

    def remove_worker(self, scheduler, worker, **kwargs):
        for record in self.workers:
            if record["address"] == worker and record["ended"] is None:
                record["ended"] = time()
        self.sample()

    def transition(self, key, start, finish, *args, **kwargs):
        # A task's activity may be over before the next sample.
        self.sample()

    def add_client(self, scheduler, client):
        self.clients[client] = scheduler.clients[client].versions

    def sample(self):
        states = self.scheduler.workers.values()
        measured = {
            state.server_id.partition("-")[2]: {
                "MEMORY_PROCESS": state.metrics["memory"],
                "MEMORY_MANAGED": state.memory.managed,
                "MEMORY_UNMANAGED": state.memory.unmanaged,
                "MEMORY_SPILLED": state.metrics["spilled_bytes"]["disk"],
                "TASKS_EXECUTING": state.metrics["task_counts"].get("executing", 0),
            }
            for state in states
            if state.metrics
        }
        groups = self.scheduler.task_groups.values()
        cluster = {
            "WORKERS": len(states),
            "THREADS": sum(state.nthreads for state in states),
            "TASKS_PROCESSING": sum(len(state.processing) for state in states),
            "TASKS_NO_WORKER": len(self.scheduler.unrunnable),
            "TASKS_MEMORY": sum(group.states["memory"] for group in groups),
            "TASKS_ERRED": sum(group.states["erred"] for group in groups),
        }
        limits = [state.memory_limit for state in states]
        if limits:
            cluster["MEMORY_LIMIT"] = sum(limits)
        for metric in ("PROCESS", "MANAGED", "UNMANAGED", "SPILLED"):
            name = f"MEMORY_{metric}"
            if measured:
                cluster[name] = sum(own[name] for own in measured.values())
        self.samples.append({"at": time(), "cluster": cluster, "workers": measured})

    async def observed(self):
        scheduler = self.scheduler
        metrics = [
            {"labels": list(labels), "value": value}
            for labels, value in scheduler.cumulative_worker_metrics.items()
            if isinstance(labels, tuple) and all(isinstance(label, str) for label in labels)
        ]
        return json.dumps(
            {
                "scheduler_id": scheduler.id,
                "versions": get_versions(),
                "executable": sys.executable,
                "workers": self.workers,
                "clients": self.clients,
                "threads_history": list(scheduler.total_nthreads_history),
                "metrics": metrics,
                "log": [line for _, _, line in reversed(scheduler.get_logs(timestamps=True))],
            }
        )

    async def observed_samples(self):
        return json.dumps(self.samples)

    async def observed_texts(self, topic):
        events = self.scheduler.get_events(topic)
        return json.dumps([[at, event["exception_text"]] for at, event in events])

    async def observed_keys(self, address):
        return json.dumps([str(task.key) for task in self.scheduler.workers[address].processing])

    async def observed_events(self, topic):
        return json.dumps([[at, event] for at, event in self.scheduler.get_events(topic)])


def dask_setup(scheduler):
    observer = Observer(scheduler)
    scheduler.add_plugin(observer)
    for handler in ("observed", *(f"observed_{what}" for what in WHAT)):
        scheduler.handlers[handler] = getattr(observer, handler)
