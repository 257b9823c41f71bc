"""Programs that log, and their output on stderr with and without the plugin.

Run as a script, it prints as JSON, by program: its output without the plugin, with it in a worker,
in a scheduler and in both, and the lines that each of the last three has read.
"""

import json
import logging
import logging.config
import os
import sys
import threading
import traceback
import warnings
from types import SimpleNamespace

from galvo.plugin.worker_side import LineHandler, WorkerSide, detach

PROGRAMS = {}
SETTINGS = {"name": "galvo-test", "logs": True, "scheduler_id": "Scheduler-elsewhere"}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


class Plugin:
    """The plugin in a worker, a scheduler, both of them in one process, or neither."""

    def __init__(self, places):
        self.lines = []
        self._places = places

    def install(self):
        if "scheduler" in self._places:
            self._handler = LineHandler(lambda line: self.lines.append(line["message"]))
            self._handler.attach()
        if "worker" in self._places:
            loop = SimpleNamespace(add_callback=lambda *arguments: None)
            self._worker = SimpleNamespace(
                address="tcp://a:1", loop=loop, metrics={}, handlers={}, log_event=self._hear
            )
            self._side = WorkerSide(SETTINGS)
            self._side.setup(self._worker)

    def remove(self):
        if "scheduler" in self._places:
            detach(self._handler)
        if "worker" in self._places:
            self._side.teardown(self._worker)

    def _hear(self, topic, message):
        if "message" in message:
            self.lines.append(message["message"])


@program
def without_handlers(plugin):
    plugin.install()
    logging.getLogger("mine").info("an info")
    logging.getLogger("mine").warning("a %s", "warning")
    logging.warning("of the root")  # which calls basicConfig
    logging.getLogger("mine").error("an error")


@program
def basic_config_afterwards(plugin):
    plugin.install()
    logging.basicConfig(format="%(levelname)s|%(name)s|%(message)s", level=logging.INFO)
    logging.getLogger("mine").info("an info")
    logging.getLogger("mine").warning("a warning")
    logging.getLogger("distributed.some").warning("of Dask")


@program
def basic_config_before(plugin):
    logging.basicConfig(format="%(levelname)s|%(name)s|%(message)s")
    plugin.install()
    logging.basicConfig(format="again %(message)s")
    logging.getLogger("mine").warning("a warning")


@program
def basic_config_by_force(plugin):
    plugin.install()
    logging.basicConfig(format="first %(message)s", force=True)
    logging.getLogger("mine").warning("one")
    logging.basicConfig(format="second %(message)s", force=True)
    logging.getLogger("mine").warning("two")


@program
def configured_by_a_dict(plugin):
    plugin.install()
    handler = {"class": "logging.StreamHandler", "formatter": "short"}
    logging.config.dictConfig({
        "version": 1, "formatters": {"short": {"format": "%(name)s: %(message)s"}},
        "handlers": {"stderr": handler}, "root": {"handlers": ["stderr"], "level": "INFO"},
        "disable_existing_loggers": False,
    })  # fmt: skip
    logging.getLogger("mine").warning("a warning")


@program
def handlers_of_its_own(plugin):
    log = logging.getLogger("mine")
    log.addHandler(logging.StreamHandler())
    log.propagate = False
    plugin.install()
    log.warning("kept to itself")
    log.propagate = True
    log.warning("passed on")


@program
def exceptions(plugin):
    plugin.install()
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("mine").exception("it failed")


@program
def captured_warnings(plugin):
    plugin.install()
    warnings.simplefilter("always")
    warnings.warn_explicit("not captured", UserWarning, "f.py", 1)
    logging.captureWarnings(True)
    warnings.warn_explicit("captured", UserWarning, "f.py", 2)
    logging.basicConfig(format="%(name)s")
    warnings.warn_explicit("configured", UserWarning, "f.py", 3)


@program
def attributes_of_records(plugin):
    class Attributes(logging.Formatter):
        def format(self, record):
            return " ".join(sorted(record.__dict__))

    handler = logging.StreamHandler()
    handler.setFormatter(Attributes())
    logging.getLogger().addHandler(handler)
    logging.getLogger("distributed").handlers = []
    logging.getLogger("distributed").propagate = True
    plugin.install()
    logging.getLogger("mine").warning("one", extra={"request": 7})
    logging.getLogger("distributed.some").warning("two")


@program
def filters(plugin):
    class Once(logging.Filter):
        seen = None

        def filter(self, record):
            repeated, self.seen = record.msg == self.seen, record.msg
            return not repeated

    def redact(record):
        record.msg = record.msg.replace("swordfish", "***")
        return True

    log = logging.getLogger("mine")
    log.addFilter(Once())
    plugin.install()
    for text in ("one", "one", "two swordfish"):
        log.warning(text)
    log.addFilter(SimpleNamespace(filter=redact))
    log.warning("three swordfish")
    log.addFilter(lambda record: "four" not in record.msg)
    log.warning("four")
    log.warning("five")
    plugin.remove()
    log.warning("six swordfish")


@program
def nested_lines(plugin):
    class Nested(logging.StreamHandler):
        def emit(self, record):
            super().emit(record)
            if record.msg == "outer":
                for i in range(5):
                    logging.getLogger("distributed.inner").warning("%d", i)

    log = logging.getLogger("distributed.client")
    log.handlers, log.propagate = [Nested()], True
    plugin.install()
    log.warning("outer")


@program
def disabled(plugin):
    plugin.install()
    logging.getLogger("mine").disabled = True
    logging.getLogger("mine").warning("a warning")


@program
def factories(plugin):
    def factory(*args, **kwargs):
        record = previous(*args, **kwargs)
        record.msg = record.msg.replace("swordfish", "***")
        return record

    plugin.install()
    logging.getLogger("mine").warning("before")
    previous = logging.getLogRecordFactory()
    logging.setLogRecordFactory(factory)
    logging.getLogger("mine").warning("swordfish")
    logging.makeLogRecord({"msg": "never logged", "name": "mine", "levelno": 40})
    plugin.remove()
    assert logging.getLogRecordFactory() is factory
    logging.getLogger("mine").warning("after")


@program
def dask_without_handlers(plugin):
    # Like a versioned configuration of Dask that names other loggers only.
    for name in ("distributed", "distributed.client", "tornado", "tornado.application"):
        logging.getLogger(name).handlers, logging.getLogger(name).propagate = [], True
    plugin.install()
    for name in ("distributed.some", "distributed.client", "tornado.application"):
        logging.getLogger(name).info("info of %s", name)
        logging.getLogger(name).warning("warning of %s", name)
        logging.getLogger(name).error("error of %s", name)
    if os.fork() == 0:
        logging.getLogger("distributed.some").warning("of a child")
        logging.getLogger("mine").warning("of a child, too")
        os._exit(0)
    os.wait()


@program
def dask_with_its_handlers(plugin):
    plugin.install()
    for name in ("distributed.some", "distributed.client", "tornado.application"):
        logging.getLogger(name).info("info of %s", name)
        logging.getLogger(name).error("error of %s", name)


@program
def without_a_last_resort(plugin):
    logging.lastResort = None
    logging.raiseExceptions = False
    plugin.install()
    logging.getLogger("mine").warning("a warning")


@program
def threads(plugin):
    plugin.install()
    log = logging.getLogger("mine")
    log.addFilter(lambda record: True)
    several = [threading.Thread(target=log.warning, args=("%d", i)) for i in range(8)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    plugin.remove()
    assert len(log.filters) == 1


@program
def removed(plugin):
    log, factory = logging.getLogger("mine"), logging.getLogRecordFactory()
    for _ in range(3):
        plugin.install()
        log.warning("with it")
        plugin.remove()
        log.warning("without it")
        assert logging.getLogRecordFactory() is factory
        assert logging.getLogger().handlers == log.filters == []


def run(function, places):
    """Runs a program in a child process; returns its output and the lines read."""
    errors, results = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(errors[1], 2)
        status = 1
        try:
            plugin = Plugin(places)
            function(plugin)
            os.write(results[1], json.dumps(plugin.lines).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    for end in (errors[1], results[1]):
        os.close(end)
    with open(errors[0]) as printed, open(results[0]) as read:
        printed, read = printed.read(), read.read()
    assert os.waitpid(child, 0)[1] == 0, printed
    return printed, json.loads(read)


if __name__ == "__main__":
    places = ([], ["worker"], ["scheduler"], ["worker", "scheduler"])
    print(
        json.dumps({name: [run(one, where) for where in places] for name, one in PROGRAMS.items()}),
        file=sys.stdout,
    )
