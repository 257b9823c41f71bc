"""What there is to say of a cluster: answers to the questions people have about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from galvo.client import html, quantities
from galvo.client.cluster import ClusterLike, key_of, state_of
from galvo.client.moments import in_words, moment, on_the_clock
from galvo.client.server import UNREADABLE, Row, Server
from galvo.client.terminal import printable, table

QUESTIONS = (
    ("finished", "Did my computation finish?"),
    ("exceptions", "Did any exceptions occur?"),
    ("cost", "How much did that cost me?"),
    ("topTime", "What is taking most of the time?"),
    ("whyRunning", "Why is that cluster still running?"),
    ("whatChanged", "What has changed since it worked?"),
    ("slower", "Where is more time spent than before?"),
    ("scaling", "Where did new inefficiency accrue?"),
    ("gil", "How much time is lost to the GIL?"),
    ("network", "How much time is lost in network transfer?"),
    ("spill", "How much time is lost to spilling?"),
    ("eventLoop", "How much time is lost to blocked event loops?"),
    ("cpu", "Which functions hold threads without the CPU?"),
)

ANSWERS = " ".join(f"{name} {{ ...told }}" for name, _ in QUESTIONS)

REPORT = (
    f"fragment answers on Answers {{ {ANSWERS} }}"
    + """
query ($id: ID!) { cluster(id: $id) {
  number name schedulerId state desiredState startedAt endedAt durationSeconds
  closeReason lastSeenAt
  user { name } tags { key value }
  totals {
    tasks tasksSucceeded tasksErred errors bytes peakWorkers peakThreads computeSeconds
    clusterSeconds
  }
  usage { utilization costs { amount currency basis } }
  functions(first: 5) { prefix computeSeconds tasks tasksErred costs { amount currency basis } }
  errors(first: 5) { nodes { at type message key } }
  answers { ...answers }
} }
fragment told on Answer {
  verdict headline value unit share confidence evidence { label value unit }
}
"""
)

# What is spoken of as bad comes with a word, and not with a colour alone.
VERDICTS = {"GOOD": "good", "NOTICE": "notice", "BAD": "bad"}


class Report:
    """A cluster's report: text when printed, a table in a notebook, a file by ``save()``.

    Attributes
    ----------
    data:
        What the server answered, with the names and units of the GraphQL schema.
        ``data["answers"]`` has an answer to each question, with ``verdict``, ``headline``,
        ``value``, ``unit`` and ``evidence``.
    """

    def __init__(self, data: Row):
        self.data = data

    def __repr__(self) -> str:
        return f"<Report of cluster {self.data['number']}>"

    def __str__(self) -> str:
        lines = [self._title(), *(f"{name}: {text}" for name, text in self._facts()), ""]
        for name, question in QUESTIONS:
            answer = self.data["answers"][name]
            lines.append(f"{question} [{_verdict(answer)}]")
            lines.append(f"    {answer['headline']}")
            lines += [f"    - {_evidence(one)}" for one in answer["evidence"]]
        lines = [printable(line) for line in lines]
        for title, (heads, rows) in self._tables():
            if rows:
                lines += ["", title, table(heads, rows)]
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """A page of its own, which loads nothing and runs nothing."""
        return html.document(self._title(), *self._parts())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes a page if the name ends in ``.html`` or ``.htm``, and otherwise the text."""
        target = Path(path)
        is_page = target.suffix.lower() in (".html", ".htm")
        target.write_text(self.html() if is_page else str(self), encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        return html.block(*self._parts())

    def _parts(self) -> list[object]:
        rows = []
        for name, question in QUESTIONS:
            answer = self.data["answers"][name]
            items = (html.element("li", _evidence(one)) for one in answer["evidence"])
            evidence = html.element("ul", html.Html("".join(items))) if answer["evidence"] else ""
            told = html.Html(html.element("div", answer["headline"]) + evidence)
            verdict = _verdict(answer)
            rows.append([question, html.element("span", verdict, verdict.partition(",")[0]), told])
        parts: list[object] = [html.element("h3", self._title()), html.table((), self._facts())]
        parts.append(html.table(("question", "verdict", "answer"), rows))
        for title, (heads, cells) in self._tables():
            if cells:
                parts += [html.element("h4", title), html.table(heads, cells)]
        return parts

    def _title(self) -> str:
        data = self.data
        return f"Cluster {data['number']} {data['name'] or data['schedulerId']}"

    def _facts(self) -> list[tuple[str, str]]:
        data, totals = self.data, self.data["totals"]
        begun = on_the_clock(moment(data["startedAt"]))
        lasted = in_words(data["durationSeconds"])
        if data["state"] == "CLOSED":
            reason = f": {data['closeReason']}" if data["closeReason"] else ""
            time = f"from {begun}, closed after {lasted}{reason}"
        else:
            heard = on_the_clock(moment(data["lastSeenAt"]))
            time = f"from {begun}, {state_of(data)}, up for {lasted}, last heard of {heard}"
        tags = (t["key"] + ("" if t["value"] is None else f"={t['value']}") for t in data["tags"])
        utilization = quantities.share(data["usage"]["utilization"])
        workers = quantities.count(totals["peakWorkers"], "workers")
        threads = quantities.count(totals["peakThreads"], "threads")
        facts = [
            ("User", data["user"]["name"] if data["user"] else ""),
            ("Time", time),
            ("Tags", ", ".join(tags)),
            ("Workers", f"{workers} with {threads} at most"),
            ("Tasks", f"{totals['tasksSucceeded']:,} done, {totals['tasksErred']:,} erred"),
            (
                "Thread time",
                f"{in_words(totals['clusterSeconds'])}"
                + (f", of which {utilization} computed something" if utilization else ""),
            ),
            ("Cost", quantities.costs(data["usage"]["costs"])),
        ]
        return [(name, text) for name, text in facts if text]

    def _tables(self) -> list[tuple[str, tuple[list[str], list[list[str]]]]]:
        functions = [
            [
                one["prefix"],
                in_words(one["computeSeconds"]),
                quantities.count(one["tasks"]),
                quantities.count(one["tasksErred"]),
                quantities.costs(one["costs"]),
            ]
            for one in self.data["functions"]
        ]
        errors = [
            [on_the_clock(moment(one["at"])), one["type"] or "", one["message"] or "", one["key"]]
            for one in self.data["errors"]["nodes"]
        ]
        return [
            (
                "The functions that computed longest",
                (["function", "computed", "tasks", "erred", "cost"], functions),
            ),
            ("The newest errors", (["at", "type", "message", "task"], errors)),
        ]


def report(cluster: ClusterLike | None = None, account: str | None = None) -> Report:
    """What there is to say of a cluster: did it finish, did anything fail, what did it cost, what
    takes the time, what changed, and what time is lost to what.

    Parameters
    ----------
    cluster:
        The cluster's ``id`` or ``number``, its scheduler's identifier, or a Dask client of it; by
        default that of the current client.
    account:
        The account; by default the configured one, and then the token's own.

    Examples
    --------
    >>> import galvo
    >>> galvo.report(12).save("cluster-12.html")  # doctest: +SKIP
    """
    with Server.configured(account) as server:
        return report_of(server, cluster)


def report_of(server: Server, cluster: ClusterLike | None) -> Report:
    """The same of a server that is at hand."""
    key = key_of(server, cluster)
    return Report(server.graphql(REPORT, {"id": key.id}, UNREADABLE)["cluster"])


def _verdict(answer: Row) -> str:
    verdict = VERDICTS.get(answer["verdict"], "unknown")
    return verdict + (", estimated" if answer["confidence"] == "ESTIMATED" else "")


def _evidence(one: Row) -> str:
    value, unit = one["value"], one["unit"]
    return one["label"] if value is None else f"{one['label']}: {_measured(value, unit)}"


def _measured(value: Any, unit: str | None) -> str:
    if unit in ("seconds", "thread-seconds"):
        return in_words(value)
    if unit == "bytes":
        return quantities.size(int(value))
    if unit == "share":
        return quantities.share(value)
    if unit is not None and len(unit) == 3 and unit.isupper():
        return quantities.amount(value, unit)
    return quantities.count(value, unit or "")
