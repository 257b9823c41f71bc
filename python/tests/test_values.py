import gzip
import json
import math
import time
import uuid

import pytest
from stand_ins import Scheduler

from galvo.plugin import values
from galvo.plugin.sections import USUAL_LIMITS
from galvo.plugin.values import clean, count, cut, dumps, duration, encode, moment, uuid7


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
        # Six characters, which only look like the notation of one.
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
    assert [count(v) for v in (-5, 0, 7, 2.9, 2**60)] == [0, 0, 7, 2, 2**53 - 1]
    values = (1.5, 0.0, -0.1, math.nan, math.inf)
    assert [duration(v) for v in values] == [1.5, 0.0, 0.0, 0.0, 0.0]
    times = (1.5, 0.0, -1, None, math.nan, math.inf)
    assert [moment(v) for v in times] == [1.5, None, None, None, None, None]


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
    monkeypatch.setattr(values, "_latest", 0)
    ids = [uuid7() for _ in times]
    assert ids == sorted(ids) and len(set(ids)) == len(ids)
    assert [uuid.UUID(i).int >> 80 for i in ids] == [1_000_000] * 5 + [1_000_001]
    # One that was far ahead does not matter for long.
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
