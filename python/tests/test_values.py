import collections
import enum
import gzip
import json
import math
import time
import uuid
from fractions import Fraction

import msgpack
import pytest
from distributed.protocol.serialize import _is_dumpable
from stand_ins import Scheduler

from galvo.plugin import values
from galvo.plugin.sections import USUAL_LIMITS
from galvo.plugin.values import (
    clean,
    cut,
    dumps,
    encode,
    make_sendable,
    text_of,
    time_or_none,
    to_count,
    to_duration,
    uuid7,
)


def decode(body, headers):
    if headers.get("Content-Encoding") == "gzip":
        body = gzip.decompress(body)

    def refuse(name):
        raise AssertionError(name)

    return json.loads(body.decode("utf-8"), parse_constant=refuse)


@pytest.mark.parametrize(
    "text, cleaned",
    [
        ("plain", "plain"),
        ("Grüße 数据 🎉", "Grüße 数据 🎉"),
        ("a\ud800b", "a\ufffdb"),
        ("\udc80", "\ufffd"),
        ("\ud83c\udf89", "🎉"),
        ("nul\0here", "nul\ufffdhere"),
        ("\ud800\0", "\ufffd\ufffd"),
    ],
)
def test_text_that_strict_readers_refuse_is_replaced(text, cleaned):
    assert clean(text) == cleaned
    assert decode(*encode({"text": [text], text: 1})) == {"text": [cleaned], cleaned: 1}


@pytest.mark.parametrize(
    "value, text",
    [
        ({"a": [1, 2.5, None, True], 3: ("x",)}, '{"a":[1,2.5,null,true],"3":["x"]}'),
        ("née ✓", '"née ✓"'),
        # Six characters that only resemble an escape sequence.
        (r"\u0000", r'"\\u0000"'),
        ("née\0", '"née\ufffd"'),
        ({"a": {"\0": "\0"}}, '{"a":{"\ufffd":"\ufffd"}}'),
        (["\ud83d", "\ud83d\ude00"], '["\ufffd","\U0001f600"]'),
        ({"a": (math.inf, -math.inf, math.nan)}, '{"a":[null,null,null]}'),
        ({math.nan: "\0"}, '{"null":"\ufffd"}'),
    ],
)
def test_the_json_of_values(value, text):
    assert dumps(value) == text


def test_what_is_no_number_becomes_null():
    values = [1.5, math.nan, math.inf, -math.inf, 0, True, None]
    assert decode(*encode({"values": tuple(values)}))["values"] == [
        1.5, None, None, None, 0, True, None,
    ]  # fmt: skip


def test_large_reports_are_compressed_and_small_ones_are_not():
    body, headers = encode({"text": "x" * 10_000})
    assert headers == {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert len(body) < 200
    body, headers = encode({"text": "x"})
    assert (body, headers) == (b'{"text":"x"}', {"Content-Type": "application/json"})


def test_cut_shows_that_something_is_gone():
    assert cut("x" * 20, 20) == "x" * 20
    assert cut("x" * 21, 20) == "x" * 7 + "… [truncated]"
    assert len(cut("x" * 100_000, 4096)) == 4096


@pytest.mark.parametrize(
    "value, text", [(("a", 0, 1), "('a', 0, 1)"), (b"k", "b'k'"), (3, "3"), (1.5, "1.5")]
)
def test_cut_takes_any_key(value, text):
    assert cut(value, 100) == text


def test_numbers_stay_within_the_bounds_of_the_protocol():
    assert [to_count(v) for v in (-5, 0, 7, 2.9, 2**60)] == [0, 0, 7, 2, 2**53 - 1]
    values = (1.5, 0.0, -0.1, math.nan, math.inf)
    assert [to_duration(v) for v in values] == [1.5, 0.0, 0.0, 0.0, 0.0]
    times = (1.5, 0.0, -1, None, math.nan, math.inf)
    assert [time_or_none(v) for v in times] == [1.5, None, None, None, None, None]


def test_ids_are_of_version_7_and_sort_by_time():
    before = int(time.time() * 1000)
    ids = [uuid7() for _ in range(1000)]
    after = int(time.time() * 1000)
    assert len(set(ids)) == 1000
    parsed = [uuid.UUID(i) for i in ids]
    assert {(i.version, i.variant) for i in parsed} == {(7, uuid.RFC_4122)}
    assert all(before <= i.int >> 80 <= after for i in parsed)


def test_ids_keep_the_order_they_were_made_in(monkeypatch):
    # Within a millisecond, and when a clock is set back a little.
    times = [1000.0, 1000.0, 1000.0001, 999.9, 1000.0, 1000.001]
    monkeypatch.setattr(values, "time", iter(times).__next__)
    monkeypatch.setattr(values, "_latest_id", 0)
    ids = [uuid7() for _ in times]
    assert ids == sorted(ids) and len(set(ids)) == len(ids)
    assert [uuid.UUID(i).int >> 80 for i in ids] == [1_000_000] * 5 + [1_000_001]
    # A clock that was far ahead has no lasting effect.
    monkeypatch.setattr(values, "time", lambda: 500.0)
    assert uuid.UUID(uuid7()).int >> 80 == 500_000


def test_long_texts_are_cut_to_the_bounds_of_the_protocol():
    scheduler = Scheduler()
    (group,) = scheduler.submit("n" * 5000)
    scheduler.fail(scheduler.keys(group)[0], "E" * 30_000, traceback_text="t" * 200_000)
    group.types.update("y" * 600 + str(i) for i in range(150))
    group.all_durations["d" * 300] = 1.0
    scheduler.read()
    sent = scheduler.ledger.build(USUAL_LIMITS)
    ((_, row),), ((_, error),) = sent.items["task_groups"], sent.items["errors"]
    assert (len(row["name"]), len(row["prefix"]), len(row["types"])) == (4096, 4096, 100)
    assert {len(name) for name in row["types"]} == {512}
    assert {len(name) for name in row["durations"]} == {256}
    lengths = [len(error[name]) for name in ("key", "message", "traceback")]
    assert lengths == [4096, 20_000, 100_000]
    assert all(error[name].endswith("… [truncated]") for name in ("key", "message", "traceback"))


@pytest.mark.parametrize("name", [("tuple", 1), 7, b"bytes", "lone\ud800"])
def test_group_names_of_any_kind(name):
    scheduler = Scheduler()
    scheduler.submit(name)
    scheduler.read()
    sent = scheduler.ledger.build(USUAL_LIMITS)
    bodies = [body for _, body in sent.items["task_groups"]]
    (row,) = decode(*encode({"rows": bodies}))["rows"]
    assert row["name"] == str(name).replace("\ud800", "\ufffd")


class Hostile(str):
    """Text, a dict or an object that fails in every operation."""

    def __str__(self):
        raise ValueError("no")

    __repr__ = __format__ = __str__


class HostileDict(dict):
    def items(self):
        raise ValueError("no")

    __iter__ = keys = items


class HostileMeta(type):
    @property
    def __name__(cls):
        raise ValueError("no")


class Nameless(metaclass=HostileMeta):
    pass


class Endless(list):
    def __iter__(self):
        return iter(int, 1)


class Three(enum.IntEnum):
    three = 3


ROUND = []
ROUND.append(ROUND)
WIDE = []
WIDE.extend([WIDE] * 1000)


CARRIED = [
    (None, None),
    (True, True),
    (1.5, 1.5),
    (math.nan, None),
    (math.inf, None),
    (2**64 - 1, 2**64 - 1),
    (-(2**63), -(2**63)),
    (2**64, "<integer of 65 bits>"),
    (10**5000, "<integer of 16610 bits>"),
    (Three.three, 3),
    (Fraction(1, 2), 0.5),
    ("caf\udce9.csv", "caf\\udce9.csv"),
    ("nul\0, \u202e and \x1b[31m", "nul\0, \u202e and \x1b[31m"),
    (Hostile("a \ud800"), "a \\ud800"),
    (b"bytes", "<5 bytes>"),
    (object(), "<object>"),
    (Hostile, "<type>"),
    (Nameless(), "<object>"),
    ({1: "a", (1, 2): "b", Hostile("c"): {"d"}}, {"1": "a", "(1, 2)": "b", "c": ["d"]}),
    (HostileDict(a=[1]), {"a": [1]}),
    (Endless([1, 2]), [1, 2]),
    (collections.deque([1]), [1]),
]


@pytest.mark.parametrize("number", range(len(CARRIED)))
def test_whatever_it_is_dasks_comms_carry_it(number):
    value, carried = CARRIED[number]
    found = make_sendable(value)
    assert found == carried and type(found) is type(carried)
    assert _is_dumpable(found)
    assert msgpack.unpackb(msgpack.packb({"x": [found]}), strict_map_key=False) == {"x": [carried]}


@pytest.mark.parametrize("number", range(4))
def test_what_is_carried_is_bounded(number):
    value = [ROUND, WIDE, "\ud800" * 10**6, ["x" * 10**6] * 1000][number]
    assert len(msgpack.packb(make_sendable(value))) < 2_000_000
    assert make_sendable("x" * 10**6, 20) == "xxxxxxx… [truncated]"


def test_any_value_is_a_text():
    assert text_of(Hostile("a")) == "a" and type(text_of(Hostile("a"))) is str
    assert cut(Hostile("a" * 50), 20) == "aaaaaaa… [truncated]"
    assert text_of(10**5000) == "<int>"
    assert text_of(Nameless()).startswith("<")
    assert [to_count(value) for value in (math.nan, math.inf, "x", None, -1)] == [0, 0, 0, 0, 0]
