"""Compares the server's data with its acknowledgments: complete, without duplicates, and atomic per
report.

The reporters' records are compared with GraphQL responses. A report without an acknowledgment may
be stored or not; the last stored one is determined by the cluster's number of tasks, which grows
with each report. Everything else follows from that, to the last row.
"""

from dataclasses import dataclass

CLUSTERS = """
query ($after: String) { viewer { account { list: clusters(first: 100, after: $after) {
  pageInfo { hasNextPage endCursor }
  nodes { id schedulerId state totals { tasks tasksErred errors bytes computeSeconds } }
} } } }
"""

LISTS = {
    "task_groups": (
        "taskGroups",
        "name tasks tasksSucceeded bytes states { state count } durations { action seconds }",
    ),
    "computations": ("computations", "daskId state taskGroups(first: 10) { nodes { name } }"),
    "errors": ("errors", "key type message taskGroup { name } computation { daskId }"),
    "events": ("events", "topic data"),
    "logs": ("logs", "level message"),
}

DURATIONS = {"compute": "COMPUTE", "transfer": "TRANSFER"}


@dataclass
class Verdict:
    """The extent of a comparison, and its differences."""

    acknowledged: int
    facts: int
    lost: int
    differences: list

    def __str__(self):
        return "\n".join(self.differences[:20])


def judge(fleet, server):
    """Compares all records of the fleet's reporters with the server's responses."""
    found = clusters(server)
    verdict = Verdict(fleet.acknowledged, 0, 0, [])
    for reporter in fleet.reporters:
        verdict.differences += [f"{reporter.name}: {what}" for what in reporter.complaints]
        verdict.lost += len(reporter.complaints)
        compare(reporter.scheduler, found.get(reporter.scheduler.id, []), server, verdict)
    return verdict


def compare(scheduler, rows, server, verdict):
    acknowledged = max((r.sequence for r in scheduler.reports if r.acknowledged), default=0)
    if not rows:
        if acknowledged:
            verdict.lost += scheduler.acknowledged
            verdict.differences.append(f"{scheduler.name} is not there")
        return
    if len(rows) > 1:
        verdict.differences.append(f"{scheduler.name} is there {len(rows)} times")
    (row, *_) = rows
    stored = next((r for r in scheduler.reports if r.tasks == row["totals"]["tasks"]), None)
    if stored is None:
        verdict.differences.append(f"{scheduler.name} has totals of no report: {row['totals']}")
        return
    if stored.sequence < acknowledged:
        verdict.lost += sum(
            r.acknowledged for r in scheduler.reports if r.sequence > stored.sequence
        )
        verdict.differences.append(
            f"{scheduler.name}: {acknowledged} was acknowledged, {stored.sequence} is stored"
        )
    totals = {
        "tasks": stored.tasks,
        "tasksErred": stored.errors,
        "errors": stored.errors,
        "bytes": 800 * stored.tasks,
        "computeSeconds": 0.25 * stored.tasks,
    }
    if row["totals"] != totals:
        verdict.differences.append(f"{scheduler.name}: {row['totals']}, right is {totals}")
    expected = everything_until(scheduler, stored.sequence)
    for kind in LISTS:
        right = sorted(facts(kind, expected), key=repr)
        there = sorted(answered(kind, server, row["id"]), key=repr)
        verdict.facts += len(right)
        missing, excess = difference(right, there), difference(there, right)
        # Missing data counts as lost only if it was acknowledged.
        verdict.lost += len(missing) if stored.sequence <= acknowledged else 0
        verdict.differences += [f"{scheduler.name}: {kind} lacks {fact}" for fact in missing]
        verdict.differences += [f"{scheduler.name}: {kind} has too much {fact}" for fact in excess]


def difference(those, others):
    """Returns the items that the others lack, with their multiplicity."""
    left = list(map(repr, others))
    missing = []
    for fact in those:
        if repr(fact) in left:
            left.remove(repr(fact))
        else:
            missing.append(fact)
    return missing


def everything_until(scheduler, sequence):
    """Returns the newest version of each item in the reports up to this sequence."""
    newest = {kind: {} for kind in LISTS}
    for report in scheduler.reports:
        if report.sequence <= sequence:
            for kind, items in report.items.items():
                newest[kind].update(items)
    return newest


def facts(kind, newest):
    """Yields the expected responses of the server for these items."""
    names = {id_: group["name"] for id_, group in newest["task_groups"].items()}
    for item in newest[kind].values():
        match kind:
            case "task_groups":
                yield {
                    "name": item["name"],
                    "tasks": item["tasks"],
                    "succeeded": item["tasks_succeeded"],
                    "bytes": item["bytes"],
                    "states": {name.upper(): n for name, n in item["states"].items()},
                    "durations": {DURATIONS[name]: s for name, s in item["durations"].items()},
                }
            case "computations":
                groups = [names[id_] for id_ in item["task_group_ids"]]
                yield {"id": item["id"], "state": item["state"].upper(), "groups": groups}
            case "errors":
                yield {
                    "key": item["key"],
                    "type": item["type"],
                    "message": item["message"],
                    "group": names[item["task_group_id"]],
                    "computation": item["computation_id"],
                }
            case "events":
                yield {"topic": item["topic"], "data": dict(sorted(item["data"].items()))}
            case "logs":
                yield {"level": item["level"], "message": item["message"]}


def answered(kind, server, cluster):
    """Yields the server's responses in the same form."""
    for node in pages(server, *LISTS[kind], cluster):
        match kind:
            case "task_groups":
                yield {
                    "name": node["name"],
                    "tasks": node["tasks"],
                    "succeeded": node["tasksSucceeded"],
                    "bytes": node["bytes"],
                    "states": {state["state"]: state["count"] for state in node["states"]},
                    "durations": {spent["action"]: spent["seconds"] for spent in node["durations"]},
                }
            case "computations":
                groups = [group["name"] for group in node["taskGroups"]["nodes"]]
                yield {"id": node["daskId"], "state": node["state"], "groups": groups}
            case "errors":
                yield {
                    "key": node["key"],
                    "type": node["type"],
                    "message": node["message"],
                    "group": node["taskGroup"] and node["taskGroup"]["name"],
                    "computation": node["computation"] and node["computation"]["daskId"],
                }
            case "events":
                yield {"topic": node["topic"], "data": dict(sorted(node["data"].items()))}
            case "logs":
                yield {"level": node["level"], "message": node["message"]}


def pages(server, field, selection, cluster):
    query = f"""query ($id: ID!, $after: String) {{ cluster(id: $id) {{
      list: {field}(first: 100, after: $after) {{
        pageInfo {{ hasNextPage endCursor }} nodes {{ {selection} }} }} }} }}"""
    after = None
    while True:
        page = server.query(query, id=cluster, after=after)["cluster"]["list"]
        yield from page["nodes"]
        if not page["pageInfo"]["hasNextPage"]:
            return
        after = page["pageInfo"]["endCursor"]


def clusters(server):
    """Returns all of the account's clusters, by scheduler."""
    found, after = {}, None
    while True:
        page = server.query(CLUSTERS, after=after)["viewer"]["account"]["list"]
        for node in page["nodes"]:
            found.setdefault(node["schedulerId"], []).append(node)
        if not page["pageInfo"]["hasNextPage"]:
            return found
        after = page["pageInfo"]["endCursor"]
