"""Work with a marker on each line of source that could be sent, and markers in its data.

Markers are letters, so that they look the same in any notation. Those of data are concatenated from
two parts, so that source does not contain them.
"""

import itertools
import logging
import time
import traceback
import warnings

from distributed import get_worker, wait

logger = logging.getLogger("marked")


def data(name):
    return name + "DataMarker"


class Reading:
    """Its repr shows its content on several lines, like tables."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"Reading\nkwargs: {data(self.name)}\nException: {data(self.name)}\n"


def refuse(number, reading, *readings, **more):
    try:
        raise KeyError("first")  # TraceMarkerCause
    except KeyError as error:
        raise ValueError("no") from error  # TraceMarkerRaise


def fail(number, *readings, **more):
    refuse(number, *readings, **more)  # TraceMarkerCall


def break_down():
    raise OSError("inner")  # MessageMarkerRaise


def fail_with_traceback(number):
    """Like libraries with their own processes."""
    try:
        break_down()  # MessageMarkerCall
    except OSError:
        text = traceback.format_exc()
    if number:
        raise RuntimeError(f"it failed elsewhere:\n\n{text}")
    raise RuntimeError(repr(text))


def stumble():
    raise OSError("stumbled")  # LogMarkerRaise


def log(number):
    try:
        stumble()  # LogMarkerCall
    except OSError:
        logger.warning("stumbled over %s", number, exc_info=True)
        logger.warning("quoted: %r", traceback.format_exc())
        logger.error("twice: %r", repr(traceback.format_exc()))
    logging.captureWarnings(True)
    warnings.warn("odd", stacklevel=1)  # LogMarkerWarning
    logger.warning("stack", stack_info=True)  # LogMarkerStack
    logger.warning("%s", str(traceback.format_stack()))  # LogMarkerQuoted
    return data("Result")


def trip():
    raise OSError("tripped")  # EventMarkerRaise


def log_traceback(number):
    try:
        trip()  # EventMarkerCall
    except OSError:
        text = traceback.format_exc()
    details = {
        "text": text,
        "quoted": repr(text),
        "lines": text.splitlines(),
        "nested": [{"deep": text}],
    }
    get_worker().log_event("troubles", details)
    return [data("Result")]


def wait_a_little():
    time.sleep(0.05)  # ProfileMarkerBusy


def work(number):
    for _ in range(40):
        wait_a_little()  # ProfileMarkerCall
    return data("Result")


def fail_to_run(reading, more):
    raise OSError("run")  # LogMarkerRaise


def troubles(client, value):
    """Everything whose source, arguments or results could be sent. CodeMarkerText"""
    # CodeMarkerComment
    busy = client.map(work, range(2))  # CodeMarkerCall
    failed = [
        client.submit(fail, 1, data(value), Reading(value), [data(value)]),
        client.submit(fail, 2, {"station": data(value)}, more=Reading(value), other=data(value)),
        *client.map(fail_with_traceback, range(2)),
    ]
    logged = [client.submit(log, 1), client.submit(log_traceback, 1)]
    wait([*busy, *failed, *logged], timeout=60)
    for future in failed:
        assert future.status == "error"
    try:
        client.run(fail_to_run, data(value), more=Reading(value))
    except OSError:
        pass
    else:
        raise AssertionError("it did not fail")
    client.log_event("said", {"tasks": len(busy)})
    return {"held": list(itertools.chain(failed, logged, busy))}
