import hashlib
import inspect
from types import SimpleNamespace

import dask
import pytest
from conftest import local_cluster, on_loop, wait_until
from dask import delayed
from distributed import Client

from galvo.plugin import code
from galvo.plugin.code import Snippets
from galvo.plugin.collector import Context
from galvo.plugin.ledger import Ledger

try:
    from distributed.client import SourceCode
except ImportError:
    SourceCode = None


@pytest.fixture
def context():
    return Context(SimpleNamespace(), {}, Ledger(1))


@pytest.fixture
def snippets(context):
    return Snippets(context)


def queued(context):
    return [body for _, body in context.outboxes["code"].take(1000)]


def sha(text):
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def frame(text, line=12, relative_line=2, file="work.py"):
    return (text, line, relative_line, file)


def withheld(context):
    return context.ledger.receipt.describe()["code"]["withheld"]


def compute_inner():
    return delayed(sum)([1, 2]).compute()


def compute_outer():
    return compute_inner() + 0


def test_stacks_are_described_and_each_snippet_is_sent_once(context, snippets):
    outer, inner = frame("def f():\n  g()\n", 7, 1), frame("def g():\n  x.compute()\n")
    assert context.frames({(outer, inner): None}) == [
        [
            {"hash": sha(outer[0]), "file": "work.py", "line": 7, "relative_line": 1},
            {"hash": sha(inner[0]), "file": "work.py", "line": 12, "relative_line": 2},
        ]
    ]
    assert queued(context) == [
        {"hash": sha(outer[0]), "text": outer[0]},
        {"hash": sha(inner[0]), "text": inner[0]},
    ]
    assert context.frames([(inner,), (outer,)])[0][0]["hash"] == sha(inner[0])
    assert queued(context) == []
    snippets.resend()
    assert [body["text"] for body in queued(context)] == [outer[0], inner[0]]


def test_whatever_dask_puts_there_is_survived(context, snippets):
    ToPickle = type("ToPickle", (), {})  # the wrapper of some releases in shared processes
    wrapped, within = ToPickle(), ToPickle()
    wrapped.data, within.data = (frame("a"),), frame("b")
    stacks = ["plain", wrapped, (within,), None, 1, (), (object(), "text"), ((1, 2, 3, 4),)]
    described = snippets.frames(stacks)
    assert [[f["hash"] for f in stack] for stack in described] == [
        [sha("plain")], [sha("a")], [sha("b")], [sha("text")],
    ]  # fmt: skip
    assert described[0] == [{"hash": sha("plain"), "file": "", "line": 0, "relative_line": 0}]
    assert snippets.frames(None) == snippets.frames([]) == []


def test_stacks_are_bounded(snippets):
    stack = tuple(frame(f"def f{i}(): pass") for i in range(50))
    described = snippets.frames([stack] * 50)
    assert len(described) == 20
    assert [f["hash"] for f in described[0]] == [sha(f"def f{i}(): pass") for i in range(30, 50)]


def test_texts_are_bounded_and_clean(context, snippets):
    (stack,) = snippets.frames([(frame("x" * 300_000),), (frame("\ud800\0 é"),)][:1])
    (body,) = queued(context)
    assert len(body["text"]) == 200_000 and body["text"].endswith("… [truncated]")
    assert stack[0]["hash"] == body["hash"] == sha(body["text"])
    snippets.frames([(frame("\ud800\0 é"),)])
    (body,) = queued(context)
    assert body["text"] == "\ufffd\ufffd é" and body["hash"] == sha(body["text"])


def test_secrets_are_taken_out_before_the_hash_is_made(context, snippets):
    text = "def load():\n    token = 'hunter2hunter2'\n    read(token)\n"
    ((described,),) = snippets.frames([(frame(text),)])
    (body,) = queued(context)
    assert "hunter2" not in body["text"] and body["text"].startswith("def load():\n    token = ")
    assert described["hash"] == sha(body["text"])
    # Texts that differ only in their secret are one snippet.
    ((again,),) = snippets.frames([(frame(text.replace("hunter2", "swordfish")),)])
    assert again["hash"] == described["hash"] and queued(context) == []


def test_memory_is_bounded(context, snippets, monkeypatch):
    monkeypatch.setattr(code, "MOST_SNIPPETS", 10)
    for i in range(25):
        snippets.frames([(frame(f"text {i}"),)])
    assert len(snippets._records) == len(snippets._records_by_hash) == 10
    queued(context)
    snippets.frames([(frame("text 24"),)])
    assert queued(context) == []
    snippets.frames([(frame("text 0"),)])
    assert len(queued(context)) == 1
    monkeypatch.setattr(code, "MOST_CHARACTERS", 100)
    snippets.frames([(frame("x" * 90),), (frame("y" * 90),)])
    assert [len(text) for text in snippets._records] == [90]
    assert snippets._characters == 90


def test_code_that_is_not_to_be_sent_is_counted_once(context, snippets, monkeypatch):
    context.ledger.receipt.accept(["tasks"])
    stack = (frame("def f(): pass"), frame("def g(): pass"))
    assert snippets.frames([stack]) == snippets.frames([stack, stack[:1]]) == []
    snippets.resend()
    assert queued(context) == [] and withheld(context) == 2
    context.ledger.receipt.accept(["tasks", "code"])
    assert len(snippets.frames([stack])[0]) == 2
    assert len(queued(context)) == 2 and withheld(context) == 2


def code_of(scheduler, what):
    if what == "computations":
        return scheduler.computations[-1].code
    (span,) = scheduler.extensions["spans"].spans.values()
    return span._code


@pytest.mark.parametrize("what", ["computations", "spans"])
@pytest.mark.parametrize("processes", [False, True])
def test_the_code_of_dask_is_that_of_the_callers(context, snippets, what, processes):
    settings = {
        "distributed.diagnostics.computations.nframes": 2,
        "distributed.diagnostics.computations.ignore-modules": ["distributed", "dask"],
    }
    with dask.config.set(settings), local_cluster(protocol="tcp" if processes else None) as cluster:
        if what == "spans" and "spans" not in cluster.scheduler.extensions:
            pytest.skip("this release of Dask has no spans")
        with Client(cluster):
            assert compute_outer() == 3
            wait_until(lambda: cluster.scheduler.computations)
            stacks = on_loop(cluster, lambda: snippets.frames(code_of(cluster.scheduler, what)))
    bodies = {body["hash"]: body["text"] for body in queued(context)}
    if SourceCode is None:
        assert [bodies[f["hash"]] for f in stacks[0]] == [inspect.getsource(compute_inner)]
        return
    ((outer, inner),) = stacks
    for described, function, call in (
        (outer, compute_outer, "compute_inner()"),
        (inner, compute_inner, ".compute()"),
    ):
        source = inspect.getsource(function)
        assert bodies[described["hash"]] == source
        assert call in source.splitlines()[described["relative_line"]]
        assert described["file"] == __file__
        first = inspect.getsourcelines(function)[1]
        assert described["line"] == first + described["relative_line"]
    assert len(bodies) == 2


MODULE = "".join(f"value_{number} = {number}\n" for number in range(1, 41))


def texts(context):
    return {body["hash"]: body["text"] for body in queued(context)}


def test_of_a_module_the_lines_around_the_call_are_sent(context, snippets):
    ((described,),) = snippets.frames([(frame(MODULE, 20, 19, "/home/ada/script.py"),)])
    ((text),) = texts(context).values()
    expected = [f"value_{number} = {number}" for number in range(15, 26)]
    assert text.split("\n") == ["# lines 15-25 of script.py", *expected]
    assert described == {
        "hash": sha(text),
        "file": "/home/ada/script.py",
        "line": 20,
        "relative_line": 6,
    }
    assert text.split("\n")[described["relative_line"]] == "value_20 = 20"
    # Another call in the same file is another snippet, and a repeated one is sent once.
    ((again,), (other,)) = snippets.frames(
        [(frame(MODULE, 20, 19, "/home/ada/script.py"),), (frame(MODULE, 2, 1, "script.py"),)]
    )
    assert again == described
    (text,) = texts(context).values()
    assert text.split("\n")[0] == "# lines 1-7 of script.py" and other["relative_line"] == 2
    assert text.split("\n")[2] == "value_2 = 2"


@pytest.mark.parametrize(
    "text, line, relative_line",
    [
        (MODULE, 40, 39),
        (MODULE, 40, 40),  # in releases that count from 0
        ("\n# about\n" + MODULE, 42, 39),  # or from the first statement
        ("def f():\n    pass\n" + MODULE, 42, 41),  # a module that begins with a function
        ("@decorated\ndef f():\n    pass\n" + MODULE, 43, 42),
        ("# about\n" * 40 + "x.compute()\n", 41, 40),
    ],
)
def test_no_more_of_it_is_sent_whatever_it_begins_with(
    context, snippets, text, line, relative_line
):
    ((described,),) = snippets.frames([(frame(text, line, relative_line),)])
    (sent,) = texts(context).values()
    lines = text.rstrip("\n").split("\n")
    assert sent.split("\n") == [f"# lines {line - 5}-{line} of work.py", *lines[line - 6 : line]]
    assert sent.split("\n")[described["relative_line"]] == lines[line - 1]


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n" + "    x = 1\n" * 30 + "    x.compute()\n",
        "    @decorated(\n        1\n    )\n    async def f():\n" + "        x = 1\n" * 30,
        'def f():\n    """Text\nat the margin\n"""\n' + "    x = 1\n" * 30 + "# a comment\n",
        "class C:\n" + "    x = 1\n" * 30,
    ],
)
def test_functions_and_classes_are_sent_whole(context, snippets, text):
    ((described,),) = snippets.frames([(frame(text, 140, 31),)])
    assert texts(context) == {sha(text): text}
    assert described["relative_line"] == 31


def test_of_code_whose_call_is_nowhere_nothing_is_sent(context, snippets):
    # From the oldest releases, and a cell that replaced another file.
    for stack in (MODULE, (frame(MODULE, 99, 98),), (frame(MODULE, 140, 3),)):
        ((described,),) = snippets.frames([stack])
        assert described["hash"] == sha(code.UNKNOWN_POSITION) and described["relative_line"] == 0
    assert list(texts(context).values()) == [code.UNKNOWN_POSITION]
    # A statement with a lambda, or a short cell.
    ((described,),) = snippets.frames([(frame("f = lambda: x.compute()\n", 140, 0),)])
    assert list(texts(context).values()) == ["f = lambda: x.compute()\n"]


@pytest.mark.parametrize(
    "before, secret, behind",
    [
        (
            'key = """-----BEGIN PRIVATE KEY-----\n',
            "MIIEvQIBADANBg\n" * 30,
            '-----END PRIVATE KEY-----"""\n',
        ),
        ('token = """\n' + "\n" * 20, "hunter2hunter2\n" * 5, '"""\n'),
        ("x = 1\n" * 20 + "password=\n", "hunter2!\n" * 1, ""),
    ],
)
def test_a_secret_that_begins_before_these_lines_is_known(
    context, snippets, before, secret, behind
):
    text = before + secret + behind + "y = 2\nx.compute()\nz = 3\n" + "w = 4\n" * 20
    call = text.split("\n").index("x.compute()")
    ((described,),) = snippets.frames([(frame(text, call + 1, call),)])
    (sent,) = texts(context).values()
    assert "hunter2" not in sent and "MIIE" not in sent
    assert sent.split("\n")[described["relative_line"]] == "x.compute()"
    assert sent.endswith("x.compute()\nz = 3\nw = 4\nw = 4\nw = 4\nw = 4")


@pytest.mark.parametrize("first", ["\xa0", "\x1b[1m", "cafe\u0301"], ids=ascii)
def test_no_other_lines_are_sent_because_a_secret_changes_the_text(context, snippets, first):
    text = (
        f"far = '{first}'\n" + "v = 1\n" * 20 + "x.compute()\npassword='hunter2'\n" + "w = 4\n" * 20
    )
    call = text.split("\n").index("x.compute()")
    ((described,),) = snippets.frames([(frame(text, call + 1, call),)])
    (sent,) = texts(context).values()
    assert "hunter2" not in sent and "far" not in sent
    assert sent.split("\n")[described["relative_line"]] == "x.compute()"
