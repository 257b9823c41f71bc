"""The operations of a dashboard in ``operations/``, on clusters that real Dask ran.

Each operation is valid and executed, every field that it selects has a value somewhere, except for
those that this run may leave empty, and no page costs more points than it may.
"""

import asyncio
import json
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from gql import Client, gql
from gql.transport.websockets import WebsocketsTransport
from graphql import OperationType, parse
from processes import REPOSITORY, Processes, dask_environment, python_named, wait_until
from stores import member

SEED = REPOSITORY / "web" / "tests" / "seed.py"
ACCOUNT = "operations"


def operations():
    """Returns each operation's type and text, by name, with the fragments of its file."""
    found = {}
    for file in sorted((Path(__file__).parent / "operations").glob("*.graphql")):
        text = file.read_text()
        for definition in parse(text).definitions:
            if definition.kind == "operation_definition":
                found[definition.name.value] = (definition, text)
    return found


OPERATIONS = operations()
QUERIES, MUTATIONS, SUBSCRIPTIONS = (
    [name for name, (node, _) in OPERATIONS.items() if node.operation is kind]
    for kind in (OperationType.QUERY, OperationType.MUTATION, OperationType.SUBSCRIPTION)
)

# The most points that each query may cost.
POINTS = {
    "Shell": 66,
    "OverviewCards": 1_628,
    "OverviewHeatMap": 4_003,
    "OverviewActivity": 2_528,
    "Clusters": 9_507,
    "ClustersSummary": 48,
    "ClustersSparklines": 12_284,
    "ClusterHeader": 1_458,
    "ClusterComparisonAnswers": 117,
    "ClusterLanes": 10_103,
    "ClusterMarks": 6_383,
    "ClusterTime": 8_011,
    "ClusterFunctions": 7_403,
    "ClusterGraph": 6_208,
    "ClusterProfile": 6_011,
    "ClusterCost": 5_974,
    "ClusterWorkers": 1_808,
    # A fifth of what the points of 100 workers' series cost as objects.
    "ClusterWorkerGrid": 60_707 // 5,
    "WorkerPostMortem": 1_435,
    "ClusterLogs": 1_309,
    "ClusterCode": 1_264,
    "ClusterEnvironment": 972,
    "ClusterErrors": 958,
    "ClusterPrivacy": 117,
    "Spans": 2_208,
    "SpanDetail": 3_588,
    "Compare": 2_399,
    "CompareProfile": 8_011,
    "CompareLanes": 1_234,
    "WorkloadRuns": 12_858,
    "ErrorGroups": 3_708,
    "ErrorGroupDetail": 939,
    "Idle": 6_025,
    "IdleCalendar": 22_603,
    # A fifth of what it costs if each list of causes and currencies counts as ten.
    "Cost": 56_520 // 5,
    "CostByVersion": 3_703,
    "Profiles": 6_011,
    "Logs": 1_608,
    "Insights": 2_428,
    "People": 2_409,
    "Policies": 3_422,
    "Audit": 1_408,
    "NotebookCard": 428,
    "Reports": 458,
}


def flags(parent, *nullable):
    """Returns the fields of a list of flags that may have no value.

    A busy machine raises other flags, and some kinds have neither a worker nor an error group.
    """
    return {f"{parent}.flags.nodes", *(f"{parent}.flags.nodes.{field}" for field in nullable)}


# The fields that may be null or empty in this run, by operation.
EMPTY = {
    "ClusterComparisonAnswers": {
        "cluster.answers.whatChanged.evidence.unit",
        "cluster.answers.whatChanged.evidence.value",
        "cluster.answers.whatChanged.share",
    },
    "ClusterEnvironment": {
        "cluster.environmentMismatches",
    },
    "ClusterHeader": {
        "cluster.answers.cost.benefit",
        "cluster.answers.cost.evidence.node",
        "cluster.answers.cpu.benefit",
        "cluster.answers.cpu.evidence.node",
        "cluster.answers.eventLoop.benefit",
        "cluster.answers.eventLoop.evidence.node",
        "cluster.answers.exceptions.benefit",
        "cluster.answers.finished.benefit",
        "cluster.answers.gil.benefit",
        "cluster.answers.gil.evidence.node",
        "cluster.answers.network.evidence.node",
        "cluster.answers.spill.benefit",
        "cluster.answers.spill.evidence.node",
        "cluster.answers.topTime.benefit",
        "cluster.answers.topTime.evidence.node",
        "cluster.answers.whyRunning.benefit",
        "cluster.answers.whyRunning.evidence.node",
        "cluster.answers.whyRunning.share",
        "cluster.closeReason",
        "cluster.environmentMismatches",
        *flags("cluster", "worker", "errorGroup", "function", "packages"),
        "cluster.idleTimeoutSeconds",
        "cluster.idleWarnedAt",
        "cluster.shutdownAt",
        "cluster.stopRequest",
    },
    "ClusterMarks": {
        *flags("cluster", "until"),
    },
    "Clusters": {
        "viewer.account.clusters.edges.node.closeReason",
        *flags("viewer.account.clusters.edges.node"),
    },
    "Compare": {
        "viewer.account.compare.environment.added",
        "viewer.account.compare.environment.changed",
        "viewer.account.compare.environment.machine",
        "viewer.account.compare.environment.os",
        "viewer.account.compare.environment.python",
        "viewer.account.compare.environment.removed",
        "viewer.account.compare.rows.key.activity",
        "viewer.account.compare.rows.key.path",
    },
    "Cost": {
        "viewer.account.byTag.clusters",
        "viewer.account.byUser.clusters",
    },
    "CostByVersion": {
        "viewer.account.usageTable.clusters",
    },
    "ErrorGroupDetail": {
        "node.occurrences.nodes.cluster.answers.whatChanged.evidence.value",
        "node.regressedAt",
    },
    "ErrorGroups": {
        "viewer.account.errorGroups.nodes.regressedAt",
    },
    "Idle": {
        "viewer.account.clusters.nodes",
        "viewer.account.clusters.nodes.shutdownAt",
        "viewer.account.clusters.nodes.tags",
        "viewer.account.idleBacktest.costsSaved",
        "viewer.account.idleBacktest.affectedComputations.nodes",
        "viewer.account.idlePolicy.exemptTags",
    },
    "Insights": {
        "viewer.account.flagMutes.until",
        *flags("viewer.account", "until", "worker", "errorGroup", "function", "packages"),
        "viewer.account.flags.pageInfo.endCursor",
    },
    "OverviewCards": {
        "viewer.account.alerts.nodes",
        "viewer.account.alerts.nodes.user",
        "viewer.account.before.costs",
        "viewer.account.before.idleSeconds",
        *flags("viewer.account", "worker"),
        "viewer.account.idle.nodes",
        "viewer.account.running.nodes.shutdownAt",
    },
    "People": {
        "viewer.account.invitations.nodes.acceptedAt",
        "viewer.account.invitations.nodes.acceptedBy",
        "viewer.account.invitations.nodes.revokedAt",
        "viewer.account.invitations.nodes.until",
        "viewer.account.members.nodes.until",
        "viewer.account.tokens.nodes.expiresAt",
    },
    "Policies": {
        # An attempt sets one and clears the other: this server can send no mail.
        "viewer.account.alertDeliveries.nodes.lastError",
        "viewer.account.alertDeliveries.nodes.nextAttemptAt",
        "viewer.account.alertRules.nodes.condition.amount",
        "viewer.account.alertRules.nodes.condition.currency",
        "viewer.account.alertRules.nodes.condition.days",
        "viewer.account.alertRules.nodes.condition.forSeconds",
        "viewer.account.alertRules.nodes.condition.kinds",
        "viewer.account.alertRules.nodes.tags",
        "viewer.account.alertRules.nodes.users",
        "viewer.account.alertRules.nodes.webhooks",
        "viewer.account.idlePolicy.exemptTags",
    },
    "Shell": {
        "viewer.memberships.until",
    },
    "SpanDetail": {
        "node.clientCode",
        "node.fineMetrics.total",
    },
    "WorkerPostMortem": {
        "node.end.processingKeys",
    },
}


class Dashboard:
    """An account with finished, failed and running clusters, and the mutations of a dashboard."""

    def __init__(self, galvo, processes):
        self.galvo, self.processes = member(galvo, ACCOUNT), processes
        self.responses = {}
        self.begin = datetime.now(timezone.utc)
        self.cursor = self.run("Shell")["data"]["viewer"]["account"]["liveCursor"]
        self.seed("600")
        self.seed().wait(240)
        self.find()
        self.upload()

    def seed(self, *arguments):
        settings = {"galvo.server": self.galvo.address, "galvo.token": self.galvo.token}
        environment = dask_environment(self.processes.directory, settings)
        command = [python_named("NEWEST"), SEED, *arguments]
        return self.processes.start("seed", command, environment)

    def find(self):
        """Finds the clusters, once the reports of all that ended have arrived."""
        order = {"field": "STARTED_AT", "direction": "ASC"}
        variables = {"filter": {}, "order": order, "first": 100}

        def closed():
            data = self.run("Clusters", variables)["data"]
            rows = [edge["node"] for edge in data["viewer"]["account"]["clusters"]["edges"]]
            runs = [row for row in rows if row["name"] == "features-daily"]
            return rows if [row["state"] for row in runs] == ["CLOSED", "CLOSED"] else None

        self.clusters = wait_until(closed, "both runs are closed")
        self.good, self.bad = [row for row in self.clusters if row["name"] == "features-daily"]
        (self.notebook,) = [row for row in self.clusters if row["name"] == "notebook"]
        workers = self.run("ClusterWorkers", {"id": self.bad["id"], "first": 100})["data"]
        ended = [row for row in workers["cluster"]["workers"]["nodes"] if row["end"]]
        self.dead = ended[-1]["id"]
        spans = self.run("Spans", {"first": 10, "clusters": {"ids": [self.bad["id"]]}})["data"]
        roots = spans["viewer"]["account"]["spans"]["nodes"]
        self.span = next(row["id"] for row in roots if row["path"] == ["features-daily"])
        spans = self.run("SpanDetail", {"id": self.span})["data"]["node"]["children"]["nodes"]
        self.child = spans[0]["id"]
        groups = self.run("ErrorGroups", {})["data"]["viewer"]["account"]["errorGroups"]["nodes"]
        self.group = next(row["id"] for row in groups if row["type"] == "ValueError")

    def run(self, name, variables=None):
        """Returns the response to an operation."""
        return self.send(OPERATIONS[name][1], name, variables or {})

    def run_each(self, name):
        """Returns the responses to a query, one for each of its variables."""
        variables = self.variables().get(name)
        each = variables if isinstance(variables, list) else [variables]

        def run():
            responses = [self.run(name, variables) for variables in each]
            for response in responses:
                assert "errors" not in response, response["errors"]
            # The notebook's cluster works and pauses in turn. Only a pause has a known begin.
            data, idle = responses[-1]["data"], True
            if name == "ClusterHeader":
                idle = data["cluster"]["idleSince"]
            elif name == "OverviewCards":
                running = data["viewer"]["account"]["running"]["nodes"]
                idle = any(cluster["idleSince"] for cluster in running)
            return responses if idle else None

        return wait_until(run, f"{name} is of an idle cluster")

    def send(self, text, name, variables):
        body = {"query": text, "operationName": name, "variables": variables}
        request = urllib.request.Request(
            f"{self.galvo.address}/graphql",
            json.dumps(body).encode(),
            {
                "Authorization": f"Bearer {self.galvo.token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{name}: {error.code}: {error.read().decode()}") from None

    def mutate(self):
        """Executes all mutations, and keeps their responses."""
        day = self.day(-30)
        bad, live = {"cluster": self.bad["id"]}, {"cluster": self.notebook["id"]}
        rate = {"validFrom": day, "currency": "EUR", "perThreadHour": 0.06, "perGibHour": 0.01}
        idle = {"timeoutSeconds": 1_800, "mode": "WARN"}
        mute = {"kind": "SPILLING", "tag": {"key": "team", "value": "risk"}}
        rule = {
            "name": "failures",
            "condition": {"failures": {"count": 5, "withinSeconds": 600}},
            "emails": ["ops@example.org"],
        }
        token = {"label": "notebook", "scopes": ["READ"]}
        for name, variables in [
            ("SetTags", {**bad, "tags": [{"key": "team", "value": "risk"}]}),
            ("SetNotes", {**bad, "text": "Two workers ran out of memory."}),
            ("SetErrorStatus", {"group": self.group, "status": "RESOLVED"}),
            ("SetCostRate", {"input": {**rate, "validFrom": self.day(-60)}}),
            ("DeleteCostRate", {"day": self.day(-60)}),
            ("SetCostRate", {"input": rate}),
            ("MuteFlag", {"input": {"kind": "IDLE"}}),
            ("UnmuteFlag", {"input": {"kind": "IDLE"}}),
            ("MuteFlag", {"input": mute}),
            ("SetIdlePolicy", {"input": idle}),
            ("SetDataPolicy", {"input": {"class": "LOGS", "accepted": True, "retentionDays": 30}}),
            ("Invite", {"input": {"name": "grace", "label": "risk", "role": "MEMBER"}}),
            ("CreateAlertRule", {"input": rule}),
            ("CreateToken", {"input": token}),
            ("KeepAlive", {**live, "seconds": 600}),
        ]:
            self.responses[name] = self.run(name, variables)
        rule = self.data("CreateAlertRule")["alertRule"]["identifier"]
        token = self.data("CreateToken")["token"]["identifier"]
        self.responses["TestAlertRule"] = self.run("TestAlertRule", {"identifier": rule})
        self.responses["RevokeToken"] = self.run("RevokeToken", {"identifier": token})
        grace = self.colleague()
        self.responses["SetRole"] = self.run("SetRole", {"user": grace, "role": "VIEWER"})
        self.responses["RemoveMember"] = self.run("RemoveMember", {"user": grace})

    def stop(self):
        """Requests the end of the running cluster."""
        stop = {"cluster": self.notebook["id"], "reason": "Nobody uses it."}
        self.responses["StopCluster"] = self.run("StopCluster", stop)

    def colleague(self):
        """Returns the identifier of a second member."""
        member(self.galvo, ACCOUNT, user="grace", new=False)
        members = self.run("People")["data"]["viewer"]["account"]["members"]["nodes"]
        return next(row["user"]["id"] for row in members if row["user"]["name"] == "grace")

    def upload(self):
        """Stores a performance report."""
        part = (
            '--x\r\nContent-Disposition: form-data; name="file"; filename="report.html"\r\n'
            "Content-Type: text/html\r\n\r\n<p>A report.</p>\r\n--x--\r\n"
        )
        request = urllib.request.Request(
            f"{self.galvo.address}/api/v1/{ACCOUNT}/performance_reports/private/",
            part.encode(),
            {
                "Authorization": f"Bearer {self.galvo.token}",
                "Content-Type": "multipart/form-data; boundary=x",
            },
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            assert response.status == 201

    def data(self, mutation):
        ((_, payload),) = self.responses[mutation]["data"].items()
        return payload

    def day(self, days):
        return (self.begin + timedelta(days=days)).date().isoformat()

    def variables(self):
        """Returns the variables of the queries that have some; several for several executions."""
        bad, good = {"id": self.bad["id"]}, {"id": self.good["id"]}
        base, head = {"clusterIds": [good["id"]]}, {"clusterIds": [bad["id"]]}
        since = (self.begin - timedelta(minutes=1)).isoformat()
        days = {"from": self.day(-27), "to": self.day(1)}
        newest = {"field": "STARTED_AT"}
        of_cluster = [name for name in QUERIES if "(id: $id)" in OPERATIONS[name][1]]
        return {
            **dict.fromkeys(of_cluster, bad),
            "OverviewCards": {**days, "previousFrom": self.day(-60), "since": since},
            "OverviewHeatMap": days,
            "OverviewActivity": {"scope": {"from": since}},
            "Clusters": {"filter": {}, "order": newest, "first": 100},
            "ClustersSummary": {"filter": {"search": "features"}},
            "ClustersSparklines": {"ids": [row["id"] for row in self.clusters]},
            "ClusterComparisonAnswers": {**bad, "baseline": good["id"]},
            "ClusterTime": {"clusters": [bad["id"]], "unit": "seconds"},
            "ClusterGraph": {**bad, "first": 100},
            "ClusterProfile": {**bad, "minShare": 0.01},
            "ClusterWorkers": {**bad, "first": 100},
            "ClusterWorkerGrid": {**bad, "first": 100},
            "WorkerPostMortem": {"worker": self.dead, "cluster": bad["id"]},
            "ClusterLogs": {**bad, "last": 100},
            "Spans": {"clusters": {"ids": [bad["id"]]}, "first": 50},
            "ClusterHeader": [bad, {"id": self.notebook["id"]}],
            "SpanDetail": [{"id": self.span}, {"id": self.child}],
            "Compare": {"base": base, "head": head, "by": ["FUNCTION"], "unit": "seconds"},
            "CompareProfile": {"base": base, "head": head, "minShare": 0.01},
            "CompareLanes": {"base": good["id"], "head": bad["id"]},
            "WorkloadRuns": {"search": "features"},
            "ErrorGroupDetail": {"id": self.group},
            "Idle": {"timeout": 60, "startedIn": {"from": since}},
            "IdleCalendar": days,
            "Cost": {**days, "tagKey": "team"},
            "CostByVersion": {**days, "package": "numpy"},
            "Profiles": {"scope": {"from": since}, "minShare": 0.01},
            "Logs": {"last": 100},
        }


@pytest.fixture(scope="module")
def dashboard(galvo, tmp_path_factory):
    processes = Processes(tmp_path_factory.mktemp("operations"))
    try:
        yield Dashboard(galvo, processes)
    finally:
        processes.kill_all()


@pytest.fixture(scope="module")
def changed(dashboard):
    """The dashboard after all mutations but the stop of the running cluster."""
    dashboard.mutate()
    return dashboard


def test_each_query_has_variables_and_a_limit(dashboard):
    assert len(OPERATIONS) == 69
    assert set(POINTS) == set(QUERIES)
    assert set(EMPTY) <= set(QUERIES)
    needed = {name for name in QUERIES if OPERATIONS[name][0].variable_definitions}
    # All variables of these are optional.
    assert needed - set(dashboard.variables()) == {"ErrorGroups", "Insights", "Audit", "Reports"}


@pytest.mark.parametrize("name", SUBSCRIPTIONS)
def test_subscriptions_deliver(dashboard, name):
    node, text = OPERATIONS[name]
    variables = {
        "account": ACCOUNT,
        "after": dashboard.cursor,
        "ids": [dashboard.notebook["id"]],
        "from": dashboard.begin.isoformat(),
    }
    if name in ("LiveErrors", "LiveEvents"):
        variables["ids"] = [dashboard.bad["id"]]
    known = {definition.variable.name.value for definition in node.variable_definitions}
    request = gql(text)
    request.operation_name = name
    request.variable_values = {key: variables[key] for key in known & set(variables)}
    payload = asyncio.run(asyncio.wait_for(first(dashboard.galvo, request), 60))
    ((_, batch),) = payload.items()
    rows = next(value for key, value in batch.items() if key not in ("cursor", "gap", "matches"))
    assert batch["cursor"] and rows


async def first(galvo, request):
    """Returns the first payload of a subscription."""
    address = f"ws://127.0.0.1:{galvo.port}/graphql"
    headers = {"Authorization": f"Bearer {galvo.token}"}
    transport = WebsocketsTransport(url=address, init_payload=headers)
    async with Client(transport=transport) as session:
        async for result in session.subscribe(request):
            return result


@pytest.mark.parametrize("name", sorted(set(MUTATIONS) - {"StopCluster"}))
def test_mutations_change_what_they_say(changed, name):
    assert_changed(changed, name)


def assert_changed(changed, name):
    response = changed.responses[name]
    assert "errors" not in response, response
    payload = changed.data(name)
    assert payload["userErrors"] == []
    (changed_object,) = [key for key in payload if key not in ("userErrors", "secret")]
    assert payload[changed_object], payload


@pytest.mark.parametrize("name", QUERIES)
def test_queries_deliver_what_they_select_for_their_points(changed, name):
    responses = changed.run_each(name)
    for response in responses:
        assert response["extensions"]["cost"]["requested"] <= POINTS[name]
    node, text = OPERATIONS[name]
    fragments = {
        definition.name.value: definition.selection_set
        for definition in parse(text).definitions
        if definition.kind == "fragment_definition"
    }
    objects = [response["data"] for response in responses]
    assert set(empty(node.selection_set, fragments, objects)) - EMPTY.get(name, set()) == set()


def test_a_message_has_a_next_attempt_until_its_error(changed):
    account = changed.run("Policies")["data"]["viewer"]["account"]
    messages = account["alertDeliveries"]["nodes"]
    # The alert may have ended meanwhile, which is a message of its own.
    sent = [(message["event"], message["target"]) for message in messages]
    assert sent and len(set(sent)) == len(sent), sent
    for message in messages:
        assert (message["nextAttemptAt"] is None) == (message["lastError"] is not None), message


def empty(selections, fragments, objects, path=""):
    """Yields the paths of selected fields that have no value in any of these objects."""
    for selection in selections.selections:
        if selection.kind == "inline_fragment":
            yield from empty(selection.selection_set, fragments, objects, path)
        elif selection.kind == "fragment_spread":
            yield from empty(fragments[selection.name.value], fragments, objects, path)
        else:
            key = (selection.alias or selection.name).value
            values = list(flat(item.get(key) for item in objects))
            if not values:
                yield f"{path}{key}"
            elif selection.selection_set:
                yield from empty(selection.selection_set, fragments, values, f"{path}{key}.")


def flat(values):
    """Yields the values that are not null, and the items of lists instead of the lists."""
    for value in values:
        if isinstance(value, list):
            yield from flat(value)
        elif value is not None:
            yield value


def test_the_running_cluster_is_stopped(changed):
    changed.stop()
    assert_changed(changed, "StopCluster")
    newest = {"filter": {}, "order": {"field": "ENDED_AT", "direction": "DESC"}, "first": 1}

    def closed():
        edges = changed.run("Clusters", newest)["data"]["viewer"]["account"]["clusters"]["edges"]
        return edges[0]["node"]["name"] == "notebook" and edges[0]["node"]["state"] == "CLOSED"

    wait_until(closed, "the cluster is closed")
