"""Stand-ins for the parts of a scheduler that the plugin uses, driven step by step."""

import random
from contextlib import contextmanager
from types import SimpleNamespace
from uuid import UUID

from galvo.plugin import CoiledTelemetry, Ledger


class Group:
    """A TaskGroup: hashed by identity, with recurring names."""

    def __init__(self, name):
        self.name = name
        self.prefix = SimpleNamespace(name=str(name).split("-")[0])
        self.states = {}
        self.dependencies = set()
        self.nbytes_total = 0
        self.start = self.stop = 0.0
        self.all_durations = {}
        self.types = set()
        self.span_id = None

    def __len__(self):
        return sum(self.states.values())

    def move(self, start, finish):
        if start is not None:
            self.states[start] -= 1
        self.states[finish] = self.states.get(finish, 0) + 1


def task_state(key, group, state, nbytes=-1):
    """Returns a TaskState with the size of its last result."""
    return SimpleNamespace(key=key, group=group, state=state, retries=0, nbytes=nbytes)


class Scheduler:
    """Has tasks, task groups and computations, and calls a plugin's hooks like Dask."""

    id = "Scheduler-stand-in"

    def __init__(self, seed=0, sequence=1):
        self.random = random.Random(seed)
        self.clock = 1_700_000_000.0
        self.tasks = {}
        self.task_groups = {}
        self.computations = []
        self.ids = 0
        self.plugin = CoiledTelemetry({})
        self.plugin._scheduler = self
        self.ledger = self.plugin._ledger = Ledger(sequence, now=lambda: self.clock)

    def new_id(self):
        self.ids += 1
        return str(UUID(int=self.ids))

    @property
    def is_idle(self):
        busy = ("waiting", "processing", "queued", "no-worker")
        return not any(g.states.get(s) for g in self.task_groups.values() for s in busy)

    def submit(self, *names, tasks=1, dependencies=()):
        """Submits a graph with ``tasks`` tasks in each group; returns the groups."""
        if self.is_idle or not self.computations:
            id_ = UUID(self.new_id())
            self.computations.append(SimpleNamespace(id=id_, start=self.clock, groups=set()))
        groups, keys = [], []
        for name in names:
            group = self.task_groups.get(name)
            if group is None:
                group = self.task_groups[name] = Group(name)
                self.computations[-1].groups.add(group)
            group.dependencies.update(dependencies)
            groups.append(group)
            for _ in range(tasks):
                key = (name, self.new_id())
                self.tasks[key] = task_state(key, group, "released")
                group.move(None, "released")
                keys.append(key)
        self.plugin.update_graph(self, client="c", keys=set(keys), tasks=keys, annotations={})
        for key in keys:
            self.transition(key, "waiting")
        return groups

    def scatter(self, name):
        """Adds a client's data: a group that no hook mentions."""
        key = (name, self.new_id())
        group = self.task_groups.setdefault(name, Group(name))
        self.tasks[key] = task_state(key, group, "memory", 8)
        group.move(None, "memory")

    def transition(self, key, finish, stimulus_id="s", **kwargs):
        task = self.tasks[key]
        start, task.state = task.state, finish
        task.group.move(start, finish)
        if stimulus_id is not None:  # the older releases pass none
            kwargs["stimulus_id"] = stimulus_id
        self.plugin.transition(key, start, finish, **kwargs)
        states = task.group.states
        if finish == "forgotten":
            del self.tasks[key]
            if all(s == "forgotten" or not n for s, n in states.items()):
                self.task_groups.pop(task.group.name, None)

    def compute(self, key, seconds=1.0, nbytes=8):
        group = self.tasks[key].group
        begun = self.clock
        self.clock += seconds
        group.all_durations["compute"] = group.all_durations.get("compute", 0.0) + seconds
        group.start = min(group.start or begun, begun)
        group.stop = max(group.stop, self.clock)
        group.nbytes_total += nbytes
        self.tasks[key].nbytes = nbytes
        group.types.add("int")
        ran = [{"action": "compute", "start": begun, "stop": self.clock}]
        if self.tasks[key].state != "processing":  # results come from this state
            self.transition(key, "processing")
        self.transition(key, "memory", nbytes=nbytes, typename="int", startstops=ran)

    def fail(self, key, text="ValueError('boom')", **kwargs):
        kwargs.setdefault("traceback_text", "  File ...\n")
        self.transition(key, "erred", cause=key, exception_text=text, worker="tcp://w:1", **kwargs)

    def retry(self, key, stimulus_id="task-erred-1"):
        """Fails an attempt that is not the last one."""
        self.transition(key, "processing", stimulus_id=stimulus_id and "s")
        self.tasks[key].retries -= 1
        self.transition(key, "released", stimulus_id=stimulus_id)
        self.transition(key, "waiting", stimulus_id=stimulus_id)

    def blame(self, key):
        self.transition(key, "erred")

    def forget(self, key):
        self.transition(key, "forgotten")

    def drop(self, key):
        """Cancels a task. Dask releases it first, whatever its state was."""
        if self.tasks[key].state != "released":
            self.transition(key, "released")
        self.forget(key)

    def finish(self, *groups):
        """Computes all waiting tasks in these groups, and forgets them."""
        for key in self.keys(*groups):
            self.compute(key)
        for key in self.keys(*groups):
            self.forget(key)

    def keys(self, *groups, state=None):
        return [
            key
            for key, task in self.tasks.items()
            if task.group in groups and state in (None, task.state)
        ]

    def succeed(self, state=None, **settings):
        """Continues with another plugin's ledger, from the present state or the given one."""
        if state is None:
            self.read()
            state = self.ledger.export_state(self)
        self.ledger = Ledger(1, now=lambda: self.clock, **settings)
        self.ledger.import_state(state)
        self.ledger.adopt(self)
        self.plugin._ledger = self.ledger
        return state

    @contextmanager
    def without_plugin(self):
        """Runs a block without a plugin, followed by a successor that must catch up."""
        self.read()
        state = self.ledger.export_state(self)
        self.plugin._ledger = None
        yield state
        self.succeed(state)

    def read(self, closing=False):
        self.ledger.read(self.task_groups, self.clock if closing else None)


def message(report):
    """Returns the items of a report as the server receives them."""
    message = {kind: [body for _, body in taken] for kind, taken in report.items.items()}
    return {"sequence": report.sequence, "cluster": {}, "receipt": {}, **message}
