"""A cluster's report: answers to the questions that people have about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from galvo.client import html, quantities
from galvo.client.cluster import ClusterLike, current_client, key_of, state_of
from galvo.client.moments import format_duration, format_time, parse_time
from galvo.client.server import UNREADABLE_CODES, Row, Server
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

ANSWERS = " ".join(f"{name} {{ ...answer }}" for name, _ in QUESTIONS)

REPORT = (
    f"fragment answers on Answers {{ {ANSWERS} }}"
    + """
query ($id: ID!) { cluster(id: $id) {
  number name schedulerId state desiredState startedAt endedAt durationSeconds
  closeReason lastSeenAt
  user { name } tags { key value }
  totals {
    tasks tasksSucceeded tasksErred errors bytes peakWorkers peakThreads computeSeconds
    threadSeconds
  }
  usage { utilization costs { amount currency basis } }
  functions(first: 5) { prefix computeSeconds tasks tasksErred costs { amount currency basis } }
  errors(first: 5) { nodes { at type message key } }
  answers { ...answers }
} }
fragment answer on Answer {
  verdict headline value unit share confidence evidence { label value unit }
  code arguments { ...typed } qualifications { code arguments { ...typed } }
}
fragment typed on AnswerArgument { name number unit time text }
"""
)

# A bad verdict is shown by a word, and not by a color alone.
VERDICTS = {"GOOD": "good", "NOTICE": "notice", "BAD": "bad"}


class _Table(NamedTuple):
    title: str
    heads: list[str]
    rows: list[list[str]]
    kinds: tuple[str, ...]  # of the columns, see ``html.table``


class Report:
    """The report of a cluster. It prints as text, and a notebook shows it as a table.

    Attributes
    ----------
    data:
        The server's response, with the names and units of the GraphQL schema. ``data["answers"]``
        has one answer per question, with ``verdict``, ``headline``, ``value``, ``unit`` and
        ``evidence``; and with ``code``, ``arguments`` and ``qualifications``, from which a program
        phrases the headline itself.
    """

    def __init__(self, data: Row):
        self.data = data

    def __repr__(self) -> str:
        return f"<Report of cluster {self.data['number']}>"

    def __str__(self) -> str:
        lines = [self._title(), *(f"{name}: {text}" for name, text in self._facts()), ""]
        for questions, answer in self._answers():
            lines.append(f"{' '.join(questions)} [{_verdict(answer)}]")
            lines.append(f"    {answer['headline']}")
            lines += [f"    - {_evidence(item)}" for item in answer["evidence"]]
        lines = [printable(line) for line in lines]
        for section in self._tables():
            if section.rows:
                lines += ["", section.title, table(section.heads, section.rows)]
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """Returns a complete HTML page that loads no resources and runs no scripts."""
        return html.document(self._title(), *self._parts())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes an HTML page if the name ends in ``.html`` or ``.htm``, and the text otherwise.

        An existing file is overwritten. Returns the path.
        """
        target = Path(path)
        is_page = target.suffix.lower() in (".html", ".htm")
        target.write_text(self.html() if is_page else str(self), encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        return html.block(*self._parts())

    def _parts(self) -> list[object]:
        rows = []
        for questions, answer in self._answers():
            items = (html.element("li", _evidence(item)) for item in answer["evidence"])
            evidence = html.element("ul", html.Html("".join(items))) if answer["evidence"] else ""
            cell = html.Html(html.element("div", answer["headline"]) + evidence)
            verdict = _verdict(answer)
            label = html.Html("".join(html.element("div", question) for question in questions))
            rows.append([label, html.element("span", verdict, verdict.partition(",")[0]), cell])
        parts: list[object] = [html.element("h3", self._title())]
        parts.append(html.table((), self._facts(), (html.LINE,)))
        parts.append(html.table(("question", "verdict", "answer"), rows))
        for section in self._tables():
            if section.rows:
                parts.append(html.element("h4", section.title))
                parts.append(html.table(section.heads, section.rows, section.kinds))
        return parts

    def _answers(self) -> list[tuple[list[str], Row]]:
        """Returns the distinct answers, each with the questions that share it."""
        grouped: list[tuple[list[str], Row]] = []
        for name, question in QUESTIONS:
            answer = self.data["answers"][name]
            questions_of_same = next(
                (questions for questions, other in grouped if _is_same_answer(other, answer)), None
            )
            if questions_of_same is None:
                grouped.append(([question], answer))
            else:
                questions_of_same.append(question)
        return grouped

    def _title(self) -> str:
        data = self.data
        return f"Cluster {data['number']} {data['name'] or data['schedulerId']}"

    def _facts(self) -> list[tuple[str, str]]:
        data, totals = self.data, self.data["totals"]
        start_time = format_time(parse_time(data["startedAt"]))
        duration = format_duration(data["durationSeconds"])
        if data["state"] == "CLOSED":
            reason = f": {data['closeReason']}" if data["closeReason"] else ""
            time = f"from {start_time}, closed after {duration}{reason}"
        else:
            last_seen = format_time(parse_time(data["lastSeenAt"]))
            time = (
                f"from {start_time}, {state_of(data)}, up for {duration}, last report {last_seen}"
            )
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
                f"{format_duration(totals['threadSeconds'])}"
                + (f", of which {utilization} computed something" if utilization else ""),
            ),
            ("Cost", quantities.costs(data["usage"]["costs"])),
        ]
        return [(name, text) for name, text in facts if text]

    def _tables(self) -> list[_Table]:
        functions = [
            [
                row["prefix"],
                format_duration(row["computeSeconds"]),
                quantities.count(row["tasks"]),
                quantities.count(row["tasksErred"]),
                quantities.costs(row["costs"]),
            ]
            for row in self.data["functions"]
        ]
        errors = [
            [
                format_time(parse_time(row["at"])),
                row["type"] or "",
                row["message"] or "",
                row["key"],
            ]
            for row in self.data["errors"]["nodes"]
        ]
        return [
            _Table(
                "The functions that computed longest",
                ["function", "computed", "tasks", "erred", "cost"],
                functions,
                ("", *[html.NUMBER] * 4),
            ),
            _Table("The newest errors", ["at", "type", "message", "task"], errors, (html.LINE,)),
        ]


def report(cluster: ClusterLike | None = None, account: str | None = None) -> Report:
    """Returns the report of a cluster: its result, errors, cost, the slowest functions, changes
    since earlier runs, and lost time with its causes.

    Parameters
    ----------
    cluster:
        The cluster's ``id``, ``number`` or name, its scheduler's identifier, or a Dask client of
        it. By default the cluster of the current client, or else the newest cluster. ``-1`` is the
        newest cluster, ``-2`` the one before it.
    account:
        The account. By default the configured account, then the token's own.

    Raises
    ------
    NotFound
        If the account has no such cluster, or if its scheduler has not reported yet.

    Examples
    --------
    >>> import galvo
    >>> galvo.report(12).save("cluster-12.html")  # doctest: +SKIP
    """
    cluster = current_client() if cluster is None else cluster
    with Server.configured(account, about=cluster) as server:
        return report_of(server, cluster)


def report_of(server: Server, cluster: ClusterLike | None) -> Report:
    """Returns the report of a cluster from an open server connection, see ``report``."""
    key = key_of(server, cluster)
    return Report(server.graphql(REPORT, {"id": key.id}, UNREADABLE_CODES)["cluster"])


def _verdict(answer: Row) -> str:
    verdict = VERDICTS.get(answer["verdict"], "unknown")
    if answer["confidence"] != "ESTIMATED":
        return verdict
    # An amount without a verdict is still a known value.
    amounts = [answer, *answer["evidence"]]
    if verdict == "unknown" and any(_is_currency(item["unit"]) for item in amounts):
        return "estimated"
    return verdict + ", estimated"


def _is_same_answer(answer: Row, other: Row) -> bool:
    return (_verdict(answer), answer["headline"], answer["evidence"]) == (
        _verdict(other),
        other["headline"],
        other["evidence"],
    )


def _evidence(item: Row) -> str:
    value, unit = item["value"], item["unit"]
    return item["label"] if value is None else f"{item['label']}: {_format_value(value, unit)}"


def _format_value(value: Any, unit: str | None) -> str:
    if unit in ("seconds", "thread-seconds"):
        return format_duration(value)
    if unit == "bytes":
        return quantities.size(int(value))
    if unit == "share":
        return quantities.share(value)
    if unit is not None and _is_currency(unit):
        return quantities.amount(value, unit)
    return quantities.count(value, unit or "")


def _is_currency(unit: str | None) -> bool:
    return unit is not None and len(unit) == 3 and unit.isupper()
