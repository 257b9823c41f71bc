use super::*;

const IN_APP: &str = "  File \"/home/ada/etl/load.py\", line 12, in load\n    return parse(path)\n";
const LIBRARY: &str = "  File \"/usr/lib/python3.11/site-packages/pandas/io/parsers.py\", line 583, in read\n\
    \x20   return self._engine.read(nrows)\n";

/// The properties of an error: exception, message, key and traceback.
type Case = (&'static str, &'static str, &'static str, &'static str);

fn group((exception, message, key, traceback): Case) -> ErrorGroupId {
    Fingerprint::new(ErrorOrigin::User, Some(exception), message, key, traceback).group
}

#[test]
fn titles_show_no_data() {
    let cases = [
        (None, "division by zero", "division by zero"),
        (Some("ZeroDivisionError"), "ZeroDivisionError('division by zero')", "division by zero"),
        (
            Some("ValueError"),
            r#"ValueError("could not convert string to float: 'ada@example.com'")"#,
            "could not convert string to float: …",
        ),
        (
            Some("ValueError"),
            r"ValueError('could not convert \'x\' it\'s odd')",
            "could not convert … it's odd",
        ),
        (Some("KeyError"), "KeyError('salary')", "KeyError"),
        (Some("KeyError"), "KeyError(17)", "KeyError"),
        (
            Some("IndexError"),
            "index 17 is out of bounds for axis 0 with size 3",
            "index … is out of bounds for axis … with size …",
        ),
        (Some("OSError"), "OSError(28, 'No space left on device')", "No space left on device"),
        (
            Some("FileNotFoundError"),
            "[Errno 2] No such file or directory: '/data/2024/part-1.parquet'",
            "[Errno …] No such file or directory: …",
        ),
        (Some("OSError"), "cannot read /data/ada/part-1.parquet now", "cannot read … now"),
        (Some("OSError"), r"cannot read C:\data\ada.csv now", "cannot read … now"),
        (
            Some("OSError"),
            "Timed out during handshake while connecting to tcp://10.0.0.7:4312 after 30 s",
            "Timed out during handshake while connecting to … after … s",
        ),
        (Some("OSError"), "no answer from db.example.com:5432", "no answer from …"),
        (
            Some("ValueError"),
            "operands could not be broadcast together with shapes (3,4) (5,)",
            "operands could not be broadcast together with shapes (…) (…)",
        ),
        (
            Some("E"),
            "run 0190b4c2-7a1e-7cc0-8a54-7d9a4f6e2b10 of 4d967b96f4c211ed failed at 0x7f3a8c",
            "run … of … failed at …",
        ),
        (
            Some("E"),
            "Could not find data from load-parquet-4d967b96f4c211eda6d10242ac1100024",
            "Could not find data from …",
        ),
        (
            Some("MemoryError"),
            "Unable to allocate 12.5 GiB for an array with shape (1000, 2000) and data type float64",
            "Unable to allocate … GiB for an array with shape (…) and data type float64",
        ),
        (
            Some("E"),
            "<Future: error, key: inc-1> is cancelled at <__main__.Job object at 0x7f00>",
            "<Future …> is cancelled at <__main__.Job …>",
        ),
        (Some("E"), "first line 1\nsecond line", "first line …"),
        (Some("E"), "\n\n  third line", "third line"),
        (None, "f(x) is no number", "f(x) is no number"),
        (Some("E"), "", "E"),
        (None, "", "error"),
        (Some("E"), "you can't do it, it's 'done'", "you can't do it, it's …"),
    ];
    for (exception, message, title) in cases {
        let found = Fingerprint::new(ErrorOrigin::User, exception, message, "", "");
        assert_eq!(found.title, title, "{message}");
    }
    let long = Fingerprint::new(ErrorOrigin::User, None, &"word ".repeat(9_000), "", "");
    assert_eq!(long.title.chars().count(), MAX_TITLE);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn the_same_failure_is_one_group() {
    let chained = |number: &str| -> &'static str {
        format!(
            "Traceback (most recent call last):\n  File \"/home/ada/etl/load.py\", line {number}, in load\n    \
             return cache[path]\n           ~~~~~^^^^^^\nKeyError: 'a'\n\n\
             During handling of the above exception, another exception occurred:\n\n\
             Traceback (most recent call last):\n  File \"/home/ada/etl/run.py\", line {number}7, in run\n    \
             load(path)\nValueError: no"
        )
        .leak()
    };
    let recursion = |depth: usize| -> &'static str {
        let frame = "  File \"/srv/walk.py\", line 3, in walk\n    walk(node)\n";
        format!("{}  [Previous line repeated {depth} more times]\n", frame.repeat(depth)).leak()
    };
    let same: [(&str, Case, Case); 12] = [
        (
            "numbers",
            ("IndexError", "index 3 is out of bounds for axis 0 with size 3", "get-1", IN_APP),
            ("IndexError", "index -17 is out of bounds for axis 1 with size 40_000", "get-2", IN_APP),
        ),
        (
            "line numbers, and where the code is installed",
            ("ValueError", "no", "a-1", "  File \"/home/ada/etl/load.py\", line 12, in load\n"),
            ("ValueError", "no", "a-2", "  File \"C:\\jobs\\etl\\load.py\", line 99, in load\n"),
        ),
        (
            "source lines, which may have been taken out",
            ("ValueError", "no", "a-1", IN_APP),
            ("ValueError", "no", "a-1", "  File \"/home/ada/etl/load.py\", line 12, in load\n"),
        ),
        (
            "libraries between and below",
            ("ValueError", "no", "a-1", IN_APP),
            (
                "ValueError",
                "no",
                "a-1",
                "  File \"/opt/conda/lib/python3.12/site-packages/dask/core.py\", line 1, in _execute\n  \
                 File \"/home/ada/etl/load.py\", line 15, in load\n  \
                 File \"/usr/lib/python3/dist-packages/numpy/core.py\", line 4, in sum\n  \
                 File \"<__array_function__ internals>\", line 180, in sum\n",
            ),
        ),
        (
            "chained tracebacks",
            ("ValueError", "no", "a-1", chained("1")),
            ("ValueError", "no", "a-1", chained("2")),
        ),
        (
            "a recursion's depth",
            ("RecursionError", "maximum recursion depth exceeded", "a", recursion(3)),
            ("RecursionError", "maximum recursion depth exceeded", "a", recursion(900)),
        ),
        (
            "cells of notebooks",
            ("E", "no", "a", "  File \"/tmp/ipykernel_711/1234567.py\", line 1, in f\n"),
            ("E", "no", "a", "  File \"<ipython-input-3-0f1e2d3c4b5a>\", line 9, in f\n"),
        ),
        (
            "the repr and the text of an exception",
            ("ValueError", "ValueError('no such column: 3')", "a-1", IN_APP),
            ("ValueError", "no such column: 4", "a-2", IN_APP),
        ),
        (
            "a killed worker's task",
            (
                "KilledWorker",
                "KilledWorker('load-1', <WorkerState 'tcp://10.0.0.1:1', status: closed>, 3)",
                "load-1",
                "",
            ),
            (
                "KilledWorker",
                "KilledWorker(('sum-abc', 4, 5), <WorkerState 'tcp://10.0.0.2:9', name: b, status: closed>, 3)",
                "('sum-abc', 4, 5)",
                "",
            ),
        ),
        (
            "a killed worker's task in a sentence",
            (
                "KilledWorker",
                "Attempted to run task load-9 on 4 different workers, but all those workers died while running it. \
                 The last worker that attempt to run the task was tcp://10.0.0.1:41.",
                "load-9",
                "",
            ),
            (
                "KilledWorker",
                "Attempted to run task ('sum-abc', 4, 5) on 3 different workers, but all those workers died while \
                 running it. The last worker that attempt to run the task was tcp://10.0.0.2:9.",
                "('sum-abc', 4, 5)",
                "",
            ),
        ),
        (
            "lists of other lengths",
            ("KeyError", "None of [Index(['a', 'b'])] are in the columns", "a", IN_APP),
            ("KeyError", "None of [Index(['c', 'd', 'e'])] are in the columns", "a", IN_APP),
        ),
        (
            "the last frames when none is the program's own",
            ("E", "no", "a", LIBRARY),
            (
                "E",
                "no",
                "a",
                "  File \"/opt/venv/lib/python3.12/site-packages/pandas/io/parsers.py\", line 9, in read\n",
            ),
        ),
    ];
    for (what, one, other) in same {
        assert_eq!(group(one), group(other), "{what}");
    }
}

#[test]
fn different_failures_are_different_groups() {
    let here = ("ValueError", "no such column", "a-1", IN_APP);
    let different: [(&str, Case, Case); 11] = [
        ("the exception", here, ("TypeError", "no such column", "a-1", IN_APP)),
        ("the message", here, ("ValueError", "no such row", "a-1", IN_APP)),
        (
            "the message within a repr",
            ("ValueError", "ValueError('no such column')", "a-1", IN_APP),
            ("ValueError", "ValueError('no such row')", "a-1", IN_APP),
        ),
        (
            "a message of one word",
            ("RuntimeError", "RuntimeError('diverged')", "a-1", IN_APP),
            ("RuntimeError", "RuntimeError('singular')", "a-1", IN_APP),
        ),
        (
            "the types of numbers",
            ("TypeError", "Cannot cast float64 to int32", "a-1", IN_APP),
            ("TypeError", "Cannot cast float32 to int16", "a-1", IN_APP),
        ),
        (
            "the function",
            here,
            ("ValueError", "no such column", "a-1", "  File \"/home/ada/etl/load.py\", line 12, in clean\n"),
        ),
        (
            "the file",
            here,
            ("ValueError", "no such column", "a-1", "  File \"/home/ada/etl/clean.py\", line 12, in load\n"),
        ),
        (
            "who called a helper that fails for many",
            (
                "AssertionError",
                "",
                "a-1",
                "  File \"/srv/a.py\", line 1, in daily\n  File \"/srv/check.py\", line 2, in check\n",
            ),
            (
                "AssertionError",
                "",
                "a-1",
                "  File \"/srv/b.py\", line 1, in weekly\n  File \"/srv/check.py\", line 2, in check\n",
            ),
        ),
        (
            "the cause of a chain",
            (
                "ValueError",
                "no",
                "a-1",
                "  File \"/srv/a.py\", line 1, in read\n\nThe above exception was the direct cause of the following \
                 exception:\n\n  File \"/srv/a.py\", line 9, in run\n",
            ),
            (
                "ValueError",
                "no",
                "a-1",
                "  File \"/srv/a.py\", line 5, in write\n\nThe above exception was the direct cause of the following \
                 exception:\n\n  File \"/srv/a.py\", line 9, in run\n",
            ),
        ),
        (
            "libraries when there is nothing else",
            ("E", "no", "a", LIBRARY),
            ("E", "no", "a", "  File \"/usr/lib/python3.11/json/decoder.py\", line 355, in raw_decode\n"),
        ),
        (
            "objects of other classes",
            ("TypeError", "unsupported: <Frame a> and <Series b>", "a", ""),
            ("TypeError", "unsupported: <Frame a> and <Index b>", "a", ""),
        ),
    ];
    for (what, one, other) in different {
        assert_ne!(group(one), group(other), "{what}");
    }
    let origin = |origin| Fingerprint::new(origin, Some("E"), "no", "a", "").group;
    assert_ne!(origin(ErrorOrigin::User), origin(ErrorOrigin::Dask));
}

#[test]
fn the_programs_own_files_are_told_from_others() {
    for (path, library) in [
        ("/home/ada/etl/load.py", false),
        ("/home/dask/etl/load.py", false),
        ("/srv/dask.py", false),
        ("/lib/mine/load.py", false),
        ("<stdin>", false),
        ("/usr/lib/python3.11/json/decoder.py", true),
        ("/opt/venv/lib64/python3.9/asyncio/tasks.py", true),
        ("C:\\Python312\\Lib\\json\\decoder.py", true),
        ("C:\\venv\\Lib\\site-packages\\pandas\\a.py", true),
        ("/src/distributed/distributed/worker.py", true),
        ("dask/array/core.py", true),
        ("<frozen importlib._bootstrap>", true),
    ] {
        assert_eq!(is_library(path), library, "{path}");
    }
}
