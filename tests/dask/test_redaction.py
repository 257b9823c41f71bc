"""Redaction of exceptions' messages and of scripts.

If only exceptions' types may be sent, no message leaves the cluster. Of a script that calls Dask
outside of functions, only the lines around the call are sent.
"""

import json
import re

from accounts import cluster_id
from conftest import settings_for
from processes import dask_environment, wait_until
from proxy import Proxy
from stores import member

# Markers are concatenated where they are values, so that source does not contain them.
SCRIPT = """
import logging
import warnings

import galvo
from distributed import Client, LocalCluster, wait

TOP_OF_FILE = "LiteralMarker"


def fail(number):
    try:
        raise KeyError("Message" + "Marker")
    except KeyError as error:
        raised = ValueError("Message" + "Marker\\n" + "Message" + "Marker")
        if hasattr(raised, "add_note"):
            raised.add_note("Note" + "Marker")
        raise raised from error


def log(number):
    logger = logging.getLogger("script")
    try:
        fail(number)
    except ValueError:
        logger.warning("stumbled over %s", number, exc_info=True)
    logging.captureWarnings(True)
    warnings.warn("Warning" + "Marker", stacklevel=1)


if __name__ == "__main__":
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    client = Client(cluster)
    galvo.register()
    print(cluster.scheduler.id, flush=True)
    # FarBefore
    #
    #
    #
    #
    #
    futures = [client.submit(function, 1) for function in (fail, log)]
    #
    wait(futures)
    #
    #
    #
    # FarBehind
    client.log_event("said", {"exception_text": repr(ValueError("Message" + "Marker"))})
    client.close()
    cluster.close()
"""

STORED = """
query ($id: ID!) { cluster(id: $id) {
  computations(first: 10) { nodes { code { file line relativeLine snippet { text } } } }
  errors(first: 10) { nodes { type message traceback origin group { title } } }
  logs(first: 100) { nodes { logger message } }
} }
"""


def test_a_script_that_sends_types_only(galvo, processes, python):
    seen = member(galvo, "redaction-" + python.split("/")[-3])
    proxy = Proxy(galvo.port)
    settings = {
        **settings_for(proxy.address, seen.token),
        "galvo.errors.transmit": "types",
        "distributed.diagnostics.computations.nframes": 1,
        # Newer releases leave out code below pytest's directories.
        "distributed.diagnostics.computations.ignore-files": [],
    }
    script = processes.directory / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    process = processes.start(
        "script", [python, script], dask_environment(processes.directory, settings)
    )
    assert process.wait(60) == 0, process.log()
    scheduler_id = re.search(r"^Scheduler-\S+$", process.log(), re.MULTILINE).group()
    sent = "\n".join(json.dumps(exchange.report) for exchange in proxy.exchanges)
    assert [word for word in re.findall(r"[A-Z][a-z]+Marker|Far[A-Z][a-z]+", sent)] == []
    proxy.close()

    found = wait_until(
        lambda: seen.query(STORED, id=cluster_id(seen, scheduler_id))["cluster"], "it is stored"
    )
    (error,) = found["errors"]["nodes"]
    assert (error["type"], error["message"], error["origin"]) == ("ValueError", "", "USER")
    line = SCRIPT.splitlines().index("        raise raised from error") + 1
    # Some releases do not send workers the file of a function.
    file = r"(?:.*script\.py|<dynamic-code>)"
    assert re.fullmatch(rf'\s*File "{file}", line {line}, in fail\s*', error["traceback"])
    assert error["group"]["title"].startswith("ValueError")
    lines = {log["logger"]: log["message"] for log in found["logs"]["nodes"]}
    first, *rest = lines["script"].rstrip().split("\n")
    assert first == "stumbled over 1"
    assert [line for line in rest if "File" not in line and line and "Traceback" not in line] == [
        "KeyError",
        "The above exception was the direct cause of the following exception:",
        "ValueError",
    ]
    assert re.fullmatch(rf"{file}:\d+: UserWarning", lines["py.warnings"])

    # A comprehension has its own frame in some releases of Python, which Dask leaves out.
    (stack,) = found["computations"]["nodes"][0]["code"]
    (frame,) = stack
    written = SCRIPT.splitlines()
    call = frame["line"] - 1
    assert "client.submit" in written[call]
    text = frame["snippet"]["text"].split("\n")
    assert text[0] == f"# lines {call - 4}-{call + 6} of script.py"
    assert text[1:] == written[call - 5 : call + 6]
    assert text[frame["relativeLine"]] == written[call]
