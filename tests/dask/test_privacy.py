"""Refused data leaves no trace, and accepted data is stored encrypted.

``workloads/marked.py`` has a marker on each line of source that could be sent.
"""

import json
import time

import pytest
from accounts import CLUSTERS, cluster_id
from processes import GalvoServer, Processes, python_named, wait_until
from proxy import EXCHANGES, REPORTS, Proxy
from stores import STORES, empty_store, member, rows, texts_in_store
from studies import Study

PRIVACY = """
query ($id: ID!) { cluster(id: $id) {
  privacy { classes { class sent bytes withheld dropped accepted } }
} }
"""

SET = """
mutation ($class: DataClass!) { setDataPolicy(input: { class: $class, accepted: false }) {
  userErrors { field code message }
} }
"""

TEXTS = """
query ($id: ID!) { cluster(id: $id) {
  name address totals { tasks tasksErred }
  computations(first: 50) { nodes { code { file line snippet { text } } } }
  spans(first: 50) { nodes { path code { file line snippet { text } } } }
  taskGroups(first: 100) { nodes { name types } }
  errors(first: 50) { nodes { key message traceback group { title } } }
  events(first: 100) { nodes { topic data } }
  logs(first: 100) { nodes { logger message } }
  profile(minShare: 0) { samples frames { file function text } }
} }
"""

# Sections of reports by the class of their items.
SECTIONS = {
    "BASIC": ["environments", "workers", "clients", "thread_history", "samples", "usage"],
    "TASKS": ["computations", "task_groups", "spans", "fine_metrics", "function_activity"],
    "CODE": ["code"],
    "PROFILES": ["profiles"],
    "EVENTS": ["events"],
    "LOGS": ["logs"],
}


def markers(*kinds):
    lists = {
        "CODE": ["CodeMarkerComment", "CodeMarkerText", "CodeMarkerCall"],
        "TRACEBACKS": ["TraceMarkerRaise", "TraceMarkerCall"],
        "MESSAGES": ["MessageMarkerRaise", "MessageMarkerCall"],
        "LOGS": ["LogMarkerRaise", "LogMarkerCall", "LogMarkerQuoted"],
        "EVENTS": ["EventMarkerRaise", "EventMarkerCall"],
        "PROFILES": ["ProfileMarkerBusy", "ProfileMarkerCall"],
    }
    return {marker for kind in kinds or lists for marker in lists[kind]}


# On lines that only some releases send, or only by chance.
OTHERS = {"LogMarkerStack", "LogMarkerWarning", "TraceMarkerCause", "DataMarker"}


class Case:
    """An account with its cluster, and a proxy that records the cluster's requests."""

    def __init__(self, processes, galvo, python, name, refuses=(), **options):
        self.name, self.value = name, "Argument" + name.title()
        self.galvo = member(galvo, name, new=True)
        for data_class in refuses:
            answer = self.galvo.query(SET, **{"class": data_class})
            assert answer["setDataPolicy"]["userErrors"] == []
        self.proxy = Proxy(galvo.port)
        profiling = {"galvo.profile.transmit": True, "galvo.profile.interval": "5s"}
        self.study = Study(
            processes,
            python,
            self.galvo,
            server=self.proxy.address,
            **{**profiling, **options},
        ).begin()

    def acknowledged(self, since=0):
        return [e for e in self.proxy.exchanges[since:] if e.acknowledged]

    def traffic(self):
        """Returns all recorded reports as text."""
        assert {path for _, path in self.proxy.requests} <= {REPORTS, EXCHANGES}
        return "\n".join(
            json.dumps(exchange.report, ensure_ascii=False) for exchange in self.proxy.exchanges
        )

    def sent(self, texts):
        traffic = self.traffic()
        return {text for text in texts if text in traffic}

    def shown(self, texts):
        """Returns which of these texts Galvo returns, decrypted, to a member."""
        found = self.galvo.query(TEXTS, id=self.id)["cluster"]
        assert found["totals"]["tasksErred"] == 4
        everything = json.dumps(found, ensure_ascii=False)
        return {text for text in texts if text in everything}

    def receipt(self):
        classes = self.galvo.query(PRIVACY, id=self.id)["cluster"]["privacy"]["classes"]
        return {entry["class"]: entry for entry in classes}

    def reported(self):
        """Waits for two more reports, and for the profiles."""
        now = len(self.proxy.exchanges)
        wait_until(lambda: len(self.acknowledged(now)) >= 2, f"{self.name} reports")


class Cases:
    def __init__(self, processes, kind, store):
        self.galvo = galvo = GalvoServer(processes, store).start()
        python = python_named({"sqlite": "NEWEST", "postgres": "OLDEST"}[kind])
        self.kind = kind
        # Either name of the setting works.
        setting = {
            "sqlite": "galvo.computation.code.transmit",
            "postgres": "coiled.analytics.computation.code.transmit",
        }[kind]

        def case(name, **options):
            return Case(processes, galvo, python, name, **options)

        self.kept = case("kept", **{setting: False})
        self.refused = case("refused", refuses=["CODE"])
        self.unprofiled = case("unprofiled", refuses=["PROFILES", "LOGS"])
        self.all = case("all", preload=False)
        self.cases = [self.kept, self.refused, self.unprofiled, self.all]
        for case in self.cases:
            case.study.ready()
        self.rehearse()
        self.all.study.call("register_with_galvo")
        for case in self.cases:
            wait_until(case.acknowledged, f"{case.name}'s scheduler knows what is accepted")
            case.acknowledged_at = time.monotonic()
            case.study.start("troubles", value=case.value)
        for case in self.cases:
            case.study.outcome()
            case.id = cluster_id(case.galvo, case.study.scheduler_id)
        for case in (self.kept, self.refused, self.all):
            wait_until(
                lambda case=case: any(e.report.get("profiles") for e in case.acknowledged()),
                f"{case.name} sends a profile",
            )
        time.sleep(max(0, self.unprofiled.acknowledged_at + 8.5 - time.monotonic()))
        for case in self.cases:
            case.reported()
        for case in self.cases:
            # The compared data must not change any more.
            case.proxy.shut = True
            exchanges = case.proxy.exchanges
            wait_until(lambda exchanges=exchanges: exchanges[-1].status, "the last answer")

    def rehearse(self):
        """Runs a dry run, which shows the first report."""
        study = self.all.study
        plugins = study.call("dask_plugins")
        self.shown, report = study.call("dry_run")
        self.rehearsal = json.loads(report)
        self.after_rehearsal = {
            "requests": list(self.all.proxy.requests),
            "plugins": study.call("dask_plugins") == plugins,
            "clusters": self.all.galvo.query(CLUSTERS)["viewer"]["account"]["clusters"]["nodes"],
        }
        assert not any("galvo" in name for names in plugins for name in names)

    def close(self):
        for case in self.cases:
            case.proxy.close()


@pytest.fixture(scope="module", params=STORES, ids=["newest", "oldest"])
def cases(request, tmp_path_factory):
    processes = Processes(tmp_path_factory.mktemp("privacy"))
    try:
        with empty_store(request.param) as store:
            cases = Cases(processes, request.param, store)
            yield cases
            cases.close()
            processes.kill_all()
    finally:
        processes.kill_all()


def test_everything_is_sent_and_sealed(cases):
    """The workload has a marker wherever possible, without which the other tests prove nothing."""
    assert cases.all.sent(markers()) == markers()
    assert cases.all.shown(markers()) >= markers() - markers("EVENTS")
    # Events are stored unencrypted, so they contain no source.
    events = cases.all.galvo.query(TEXTS, id=cases.all.id)["cluster"]["events"]
    assert "tripped" in json.dumps(events) and "EventMarker" not in json.dumps(events)


def test_nothing_lies_in_the_open(cases):
    assert texts_in_store(cases.galvo, markers() | OTHERS) == set()
    # Shows that unencrypted texts are found.
    assert texts_in_store(cases.galvo, ["troubles", "marked"]) == {"troubles", "marked"}


@pytest.mark.parametrize("name", ["kept", "refused"])
def test_no_code_leaves_a_cluster_that_may_not_send_it(cases, name):
    case = getattr(cases, name)
    assert case.sent(markers() | OTHERS) == set()
    assert case.shown(markers() | OTHERS) == set()
    # All other data is sent: errors, log lines, events, profiles without their lines.
    found = case.galvo.query(TEXTS, id=case.id)["cluster"]
    assert len(found["errors"]["nodes"]) == 4
    assert all('marked.py", line' in error["traceback"] for error in found["errors"]["nodes"])
    assert "stumbled over 1" in json.dumps(found["logs"])
    assert "troubles" in {event["topic"] for event in found["events"]["nodes"]}
    functions = {frame["function"]: frame["text"] for frame in found["profile"]["frames"]}
    assert functions["wait_a_little"] is None
    assert {text for text in functions.values()} == {None}


def test_code_is_not_stored_where_it_is_refused(cases):
    counted = rows(
        cases.galvo,
        "SELECT a.slug || ' ' || count(s.hash) FROM accounts a"
        " LEFT JOIN code_snippets s ON s.account_id = a.id GROUP BY a.slug",
    )
    counts = {slug: int(count) for slug, count in (line.split() for line in counted)}
    assert counts["kept"] == counts["refused"] == 0
    assert counts["all"] == counts["unprofiled"] >= 2


def test_no_profile_leaves_a_cluster_that_may_not_send_it(cases):
    case = cases.unprofiled
    expected = markers("CODE", "TRACEBACKS", "MESSAGES")
    assert case.sent(markers()) == expected | markers("EVENTS")
    assert case.shown(markers()) == expected
    assert not any(exchange.report.get("profiles") for exchange in case.proxy.exchanges)
    found = case.galvo.query(TEXTS, id=case.id)["cluster"]
    assert found["profile"] is None and found["logs"]["nodes"] == []


def test_arguments_and_results_are_never_sent(cases):
    for case in cases.cases:
        data = {case.value + "DataMarker", "ResultDataMarker", "Reading\nkwargs"}
        assert case.sent(data) == set(), case.name
        assert case.shown(data) == set(), case.name
    # Dask writes them to its log; the oldest release also those of tasks.
    log = cases.all.study.dask.workers[0].log()
    shown = log.partition("Compute Failed")[2].partition("Run Failed")
    assert "ArgumentAllDataMarker" in shown[2]
    assert ("ArgumentAllDataMarker" in shown[0]) == (cases.kind == "postgres")


def items_of(report, data_class):
    for section in SECTIONS.get(data_class, ()):
        for item in report.get(section, ()):
            yield section, identity(section, item), item
    for item in report["errors"]:
        if item["origin"].upper() + "_ERRORS" == data_class:
            yield "errors", item["id"], item


def identity(section, item):
    """Returns the identity of an item, which may be sent again with other values."""
    names = {
        "fine_metrics": "span_id",
        "code": "hash",
        "usage": "hour",
        "function_activity": "minute",
    }
    if section in ("samples", "thread_history"):
        return json.dumps(item)
    return item.get(names.get(section, "id"))


def test_receipts(cases):
    for case in cases.cases:
        receipt = case.receipt()
        last = case.acknowledged()[-1].report
        reported = {name.upper(): entry for name, entry in last["receipt"].items()}
        for data_class in ("TASKS", "USER_ERRORS", "DASK_ERRORS", "CODE", "PROFILES", "LOGS"):
            sizes = {}
            for exchange in case.proxy.exchanges:
                for section, identity_, item in items_of(exchange.report, data_class):
                    size = len(json.dumps(item, ensure_ascii=False, separators=(",", ":")))
                    place = section, identity_
                    sizes[place] = max(size, sizes.get(place, 0))
            entry, where = receipt[data_class], (case.name, data_class)
            assert entry["sent"] == reported[data_class]["sent"] == len(sizes), where
            assert entry["withheld"] == reported[data_class]["withheld"], where
            assert entry["bytes"] == sum(sizes.values()), where
        assert receipt["BASIC"]["sent"] > 0
        refused = {name for name, entry in receipt.items() if not entry["accepted"]}
        assert refused == {
            "refused": {"CODE"}, "unprofiled": {"PROFILES", "LOGS"}
        }.get(case.name, set())  # fmt: skip
        for name, entry in receipt.items():
            # Before the response to its first report a scheduler does not know the refused classes.
            early = list(items_of(case.proxy.exchanges[0].report, name)) if name in refused else []
            assert entry["dropped"] == len(early), (case.name, name)
    snippets = cases.all.receipt()["CODE"]["sent"]
    for case in (cases.kept, cases.refused):
        assert case.receipt()["CODE"] | {"accepted": 0} == {
            "class": "CODE", "sent": 0, "bytes": 0, "dropped": 0, "accepted": 0,
            "withheld": snippets,
        }  # fmt: skip
    assert cases.all.receipt()["LOGS"]["sent"] > 4
    assert cases.unprofiled.receipt()["LOGS"]["withheld"] > 4
    assert sum(entry["withheld"] for entry in cases.all.receipt().values()) == 0


def test_dry_run(cases):
    report = cases.rehearsal
    assert report["scheduler_id"] == cases.all.study.scheduler_id
    assert report["cluster"]["workers"] == 1 and len(report["workers"]) == 1
    assert report["computations"] == report["task_groups"] == report["errors"] == []
    assert cases.all.galvo.token not in json.dumps(report) + cases.shown
    assert f"The report of {report['scheduler_id']} to " in cases.shown
    assert cases.after_rehearsal == {"requests": [], "plugins": True, "clusters": []}
