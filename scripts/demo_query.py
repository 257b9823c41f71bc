"""Queries a Galvo server about the demo's workload until the report is complete; prints the answer.

Exits with 0 only if the answer contains every task and the error's text.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from demo_workload import ERROR_TEXT, TASKS

QUERY = Path(__file__).with_name("demo_query.graphql").read_text()
DEADLINE_SECONDS = 30


def main(url):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        answer = query_server(url, os.environ["GALVO_TOKEN"])
        problems = differences(answer)
        if not problems or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    print(QUERY)
    print(json.dumps(answer, indent=2))
    if problems:
        sys.exit("error: the answer is not what the workload did:\n  " + "\n  ".join(problems))
    print(f"The answer holds all {sum(TASKS.values())} tasks of the workload and its error.")


def query_server(url, token):
    request = urllib.request.Request(
        url,
        data=json.dumps({"query": QUERY}).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        sys.exit(f"error: {url} answered {error.code}: {error.read().decode(errors='replace')}")


def differences(answer):
    """Returns the differences between the answer and the workload, as messages."""
    if "errors" in answer:
        return [error["message"] for error in answer["errors"]]
    clusters = answer["data"]["viewer"]["account"]["clusters"]["nodes"]
    if not clusters:
        return ["no cluster has reported yet"]
    (cluster,) = clusters
    totals, errors = cluster["totals"], cluster["errors"]["nodes"]
    by_prefix = {group["prefix"]: group["tasks"] for group in cluster["taskGroups"]["nodes"]}
    error_types = [error["type"] for error in errors if ERROR_TEXT in error["message"]]
    checks = [
        ("tasks by prefix", TASKS, by_prefix),
        ("tasks", sum(TASKS.values()), totals["tasks"]),
        ("tasks succeeded", sum(TASKS.values()) - 1, totals["tasksSucceeded"]),
        ("tasks erred", 1, totals["tasksErred"]),
        ("errors", 1, totals["errors"]),
        ("workers", 2, totals["peakWorkers"]),
        ("errors with the workload's text", ["ValueError"], error_types),
    ]
    return [
        f"{subject}: expected {expected!r}, found {actual!r}"
        for subject, expected, actual in checks
        if expected != actual
    ]


if __name__ == "__main__":
    main(sys.argv[1])
